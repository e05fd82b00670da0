package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
)

// object is a JSON object whose fields are taken out one by one. A fault is noted
// with the JSON pointer of its field; a field that is left at the end is unknown.
//
// encoding/json alone would stop at the first fault, take "RECIPIENTS" for
// "recipients", and let the last of two equal keys win.
type object struct {
	at     string // JSON pointer
	fields map[string]json.RawMessage
	order  []string
	faults *faults
}

// newObject reads text, which is valid JSON, and reports whether it is an
// object.
func newObject(at string, text []byte, faults *faults) (*object, bool) {
	o := &object{at: at, fields: map[string]json.RawMessage{}, faults: faults}
	n := 0
	isObject := activity.Members(text, func(name string, value json.RawMessage) bool {
		if n++; n > maxFields {
			o.faults.add(at, "has more than %d fields; no request has so many", maxFields)
			return false
		}
		if _, twice := o.fields[name]; twice {
			o.fault(name, "is given twice")
			return true
		}
		o.fields[name] = value
		o.order = append(o.order, name)
		return true
	})
	if !isObject {
		return nil, false
	}
	return o, true
}

// fault notes what is wrong with a field.
func (o *object) fault(name, format string, args ...any) {
	o.faults.add(o.at+pointer(name), format, args...)
}

// take returns a field's raw value, and false if the field is absent or null. A null is a
// fault: no schema allows it, and whoever sends one may mean anything by it.
func (o *object) take(name string) (json.RawMessage, bool) {
	value, ok := o.fields[name]
	delete(o.fields, name)
	if string(value) == "null" {
		o.fault(name, "is null; leave it out or give a value")
		return nil, false
	}
	return value, ok
}

// done notes every field that was not taken.
func (o *object) done() {
	for _, name := range o.order {
		if _, left := o.fields[name]; left {
			o.fault(name, "is not a field of this request")
		}
	}
}

// text returns a string, nil if absent.
func (o *object) text(name string) *string {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	s, err := text(value)
	if err != "" {
		o.fault(name, "%s", err)
		return nil
	}
	return &s
}

// text reads a JSON string, or says why it is none.
func text(value json.RawMessage) (s, fault string) {
	if len(value) == 0 || value[0] != '"' {
		return "", "is not a string"
	}
	if loneSurrogate(value) {
		return "", `holds half of a surrogate pair (\ud800 to \udfff), which is no character and cannot be sent`
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return "", "is not a string"
	}
	return s, ""
}

// loneSurrogate reports whether a JSON string has an escape for half a surrogate pair.
// Decoding would silently replace such a half, but bodies must not change.
func loneSurrogate(value []byte) bool {
	for i := 0; i+1 < len(value); i++ {
		if value[i] != '\\' {
			continue
		}
		if value[i+1] != 'u' {
			i++
			continue
		}
		switch kind(value[i:]) {
		case low:
			return true
		case high:
			if kind(value[i+6:]) != low {
				return true
			}
			i += 6
		}
		i += 5
	}
	return false
}

type surrogate int

const (
	neither surrogate = iota
	high
	low
)

// kind returns the kind of the escape at the beginning of b.
func kind(b []byte) surrogate {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return neither
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	switch {
	case err != nil:
		return neither
	case n >= 0xd800 && n < 0xdc00:
		return high
	case n >= 0xdc00 && n < 0xe000:
		return low
	}
	return neither
}

// textOr returns a string, empty if absent or wrong.
func (o *object) textOr(name string) string {
	if s := o.text(name); s != nil {
		return *s
	}
	return ""
}

// named returns a string; an empty one is a fault. It returns "" if the field is absent.
func (o *object) named(name string) string {
	s := o.text(name)
	if s == nil {
		return ""
	}
	if *s == "" {
		o.fault(name, "is empty; leave it out or give a value")
	}
	return *s
}

// flag returns a boolean.
func (o *object) flag(name string, absent bool) bool {
	value, ok := o.take(name)
	switch {
	case !ok:
		return absent
	case string(value) == "true":
		return true
	case string(value) == "false":
		return false
	}
	o.fault(name, "is neither true nor false")
	return absent
}

// duration returns a duration. A duration below least is a fault.
func (o *object) duration(name string, least time.Duration) time.Duration {
	value, ok := o.take(name)
	if !ok {
		return 0
	}
	d, err := parseDuration(value)
	switch {
	case err != nil:
		o.fault(name, "%v", err)
		return 0
	case d < least:
		o.fault(name, "is %s; the least is %s", d, least)
		return 0
	}
	return d
}

// each calls f with the elements of an array, one by one, until f returns false. f must
// not keep an element after the call.
func (o *object) each(name string, f func(i int, value json.RawMessage) bool) {
	list, ok := o.take(name)
	if !ok {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		o.fault(name, "is not a list")
		return
	}
	var value json.RawMessage
	for i := 0; dec.More(); i++ {
		if err := dec.Decode(&value); err != nil {
			o.fault(name, "is not a list")
			return
		}
		if !f(i, value) {
			return
		}
	}
}

// merge joins the faults of reading and of checking. A field that could not be read
// is missing for the checks, so a fault of checking is dropped where reading has
// noted one for the same field.
func merge(reading, checking []client.FieldError) []client.FieldError {
	all := slices.Clone(reading)
	for _, c := range checking {
		if !slices.ContainsFunc(reading, func(r client.FieldError) bool { return overlap(r.Pointer, c.Pointer) }) {
			all = append(all, c)
		}
	}
	return all
}

// overlap reports whether two pointers are equal, or one is inside the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
