package activity

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Targets is a list of targets that is decoded fast if they are bare URLs, as almost all are: the list of a
// large activity is decoded again for each step of its fan-out.
type Targets []Target

// UnmarshalJSON implements json.Unmarshaler. Bare URLs are parts of one string, so they stay in memory
// together.
func (ts *Targets) UnmarshalJSON(b []byte) error {
	if urls, ok := bareURLs(b); ok {
		*ts = urls
		return nil
	}
	return json.Unmarshal(b, (*[]Target)(ts))
}

// bareURLs reads a list of strings without escapes and white space; ok is false for anything else.
func bareURLs(b []byte) (ts Targets, ok bool) {
	const begin, next, end = `["`, `","`, `"]`
	list := string(b)
	if !strings.HasPrefix(list, begin) || !strings.HasSuffix(list, end) || len(list) < len(begin)+len(end) ||
		strings.IndexByte(list, '\\') >= 0 || !utf8.ValidString(list) {
		return nil, false
	}
	list = list[len(begin) : len(list)-len(end)]
	ts = make(Targets, 0, strings.Count(list, next)+1)
	for more := true; more; {
		var url string
		url, list, more = strings.Cut(list, next)
		if strings.IndexByte(url, '"') >= 0 {
			return nil, false
		}
		ts = append(ts, Target{Inbox: url, Stands: 1})
	}
	return ts, true
}
