package enqueue

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// head is what fedpost wants to know of an activity. The rest is opaque.
type head struct {
	Type     string
	HasActor bool
}

// readHead reads an activity's type and actor without touching its bytes. It
// reports false if body is not a JSON object.
//
// Keys are compared exactly: encoding/json would take "TYPE" for "type", and
// JSON-LD would not.
func readHead(body string) (h head, ok bool) {
	dec := json.NewDecoder(bytes.NewReader([]byte(body)))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return head{}, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return head{}, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return head{}, false
		}
		switch key {
		case "type", "@type":
			h.Type = firstString(value)
		case "actor":
			h.HasActor = namesSomething(value)
		}
	}
	if _, err := dec.Token(); err != nil {
		return head{}, false
	}
	return h, true
}

// firstString returns a string, or the first of a list of them.
func firstString(value json.RawMessage) string {
	var one string
	if json.Unmarshal(value, &one) == nil {
		return one
	}
	var several []any
	if json.Unmarshal(value, &several) == nil {
		for _, v := range several {
			if s, ok := v.(string); ok {
				return s
			}
		}
	}
	return ""
}

// namesSomething reports whether value is an id, an object with one, or a list
// that begins with such.
func namesSomething(value json.RawMessage) bool {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return false
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	if object, ok := v.(map[string]any); ok {
		v = object["id"]
		if v == nil {
			v = object["@id"]
		}
	}
	s, ok := v.(string)
	return ok && s != ""
}

// escapedLen is how many bytes s takes as a JSON string in a queue message.
func escapedLen(s string) int {
	n := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
				n += 2
			case c < ' ':
				n += 6
			default:
				n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\u2028' || r == '\u2029' || r == '\ufffe' || r == '\uffff' {
			n += 6
		} else {
			n += size
		}
		i += size
	}
	return n
}
