package activity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Target is one place to deliver to: an inbox, and how many recipients of the activity it stands for (more
// than one for a shared inbox). In JSON a plain one is the bare URL, which keeps lists small.
type Target struct {
	Inbox string // canonical
	// Written is the URL as the caller wrote it, empty if that is Inbox: callers look for it in answers.
	Written string
	Stands  int
	// Shared says that Inbox is a server's shared inbox: a 410 from it means that the whole server is gone.
	Shared bool
	// Headers are added to each request to it, in place of the activity's of the same names.
	Headers Headers
}

type targetJSON struct {
	Inbox   string  `json:"i"`
	Written string  `json:"w,omitempty"`
	Stands  int     `json:"n,omitempty"`
	Shared  bool    `json:"s,omitempty"`
	Headers Headers `json:"h,omitempty"`
}

func (t Target) MarshalJSON() ([]byte, error) {
	if t.Stands <= 1 && !t.Shared && t.Headers == "" && t.Written == "" {
		return json.Marshal(t.Inbox)
	}
	return json.Marshal(targetJSON(t))
}

func (t *Target) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' {
		inbox, err := unquote(b) // an activity may have 50,000 of them
		*t = Target{Inbox: inbox, Stands: 1}
		return err
	}
	var j targetJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*t = Target(j)
	t.Stands = cmp.Or(t.Stands, 1)
	return nil
}

// Host is the Authority of t's inbox; empty if Inbox is no URL, which enqueue has ruled out.
func (t Target) Host() string { return HostOf(t.Inbox) }

// HostOf returns the Authority of an absolute URL, or "" if it has none.
func HostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	host, _ := Authority(u)
	return host
}

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

// Header is a header that a caller adds to the requests of a delivery, such as Collection-Synchronization
// (FEP-8fcf). Enqueue has checked that it is well formed and none that fedpost or HTTP itself needs.
type Header struct {
	Name  string `json:"n"`
	Value string `json:"v"`
	// Sign says that the signature covers the header.
	Sign bool `json:"s,omitempty"`
}

// Headers is a list of headers as JSON; empty for none. As a string it can be compared like other values.
type Headers string

// NewHeaders returns hs as Headers.
func NewHeaders(hs []Header) Headers {
	if len(hs) == 0 {
		return ""
	}
	b, _ := json.Marshal(hs) // texts and flags are always JSON
	return Headers(b)
}

func (h Headers) List() (hs []Header, err error) {
	if h == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(h), &hs); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	return hs, nil
}
