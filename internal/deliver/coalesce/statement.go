package coalesce

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"strings"
)

// Read returns what the activity with this body says. ok is false if it is never redundant: its
// type is in no group, or its object has no id.
func Read(body string) (s Statement, ok bool) {
	var a map[string]any
	if err := unmarshal(body, &a); err != nil {
		return Statement{}, false
	}
	typ, _ := first(a, "type", "@type").(string)
	s.Type = strings.ToLower(typ)
	if s.Group, ok = groups[s.Type]; !ok {
		return Statement{}, false
	}
	if s.Object = idOf(a["object"]); s.Object == "" {
		return Statement{}, false
	}
	if object, ok := a["object"].(map[string]any); ok {
		s.Content = digest(object)
	}
	if s.Group == Membership {
		if target := first(a, "target", "origin"); target != nil {
			if s.Target = idOf(target); s.Target == "" {
				return Statement{}, false // the target is given, but without an id
			}
		}
	}
	return s, true
}

// unmarshal decodes one JSON value and keeps numbers as they are written.
func unmarshal(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func first(m map[string]any, names ...string) any {
	for _, n := range names {
		if v := m[n]; v != nil {
			return v
		}
	}
	return nil
}

// idOf returns the id of a value, which is a string or an object; empty if there is none.
func idOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		id, _ := first(v, "id", "@id").(string)
		return id
	}
	return ""
}

// digest is equal for deeply equal values, whatever the order of keys and the spelling of
// numbers.
func digest(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // sorts keys
	if err := enc.Encode(canonical(v)); err != nil {
		return "" // cannot happen: v was decoded from JSON
	}
	sum := sha256.Sum256(b.Bytes())
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// maxNumber bounds the length of numbers that are compared by value: 1e999999999 as a fraction
// fills the memory.
const maxNumber = 30

func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = canonical(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = canonical(e)
		}
		return l
	case json.Number:
		text := v.String()
		if i := strings.IndexAny(text, "eE"); len(text) > maxNumber || i >= 0 && len(text)-i > 4 {
			return v
		}
		if r, ok := new(big.Rat).SetString(text); ok {
			return "number " + r.RatString()
		}
		return v
	case string:
		return "text " + v // text: differs from every number
	}
	return v
}
