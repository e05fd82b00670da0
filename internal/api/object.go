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

// Object is a JSON object whose fields are taken out one by one. Faults have the JSON pointer
// of their field; a field that is left at the end is unknown.
//
// encoding/json alone would stop at the first fault, take "RECIPIENTS" for
// "recipients", and let the last of two equal keys win.
type Object struct {
	at     string // JSON pointer
	fields map[string]json.RawMessage
	order  []string
	faults *faults
}

// newObject reads text, which is valid JSON, and reports whether it is an
// object.
func newObject(at string, text []byte, faults *faults) (*Object, bool) {
	o := &Object{at: at, fields: map[string]json.RawMessage{}, faults: faults}
	n := 0
	isObject := activity.Members(text, func(name string, value json.RawMessage) bool {
		if n++; n > maxFields {
			o.faults.add(at, "has more than %d fields; no request has so many", maxFields)
			return false
		}
		if _, twice := o.fields[name]; twice {
			o.Fault(name, "is given twice")
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

func (o *Object) Fault(name, format string, args ...any) {
	o.faults.add(o.at+pointer(name), format, args...)
}

// take returns a field's raw value, and false if the field is absent or null. A null is a
// fault: no schema allows it.
func (o *Object) take(name string) (json.RawMessage, bool) {
	value, ok := o.fields[name]
	delete(o.fields, name)
	if string(value) == "null" {
		o.Fault(name, "is null; leave it out or give a value")
		return nil, false
	}
	return value, ok
}

// Done adds a fault for each field that was not taken. Check does so for the whole request.
func (o *Object) Done() {
	for _, name := range o.order {
		if _, left := o.fields[name]; left {
			o.Fault(name, "is not a field of this request")
		}
	}
}

// optional returns a string, nil if absent.
func (o *Object) optional(name string) *string {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	s, err := text(value)
	if err != "" {
		o.Fault(name, "%s", err)
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

// loneSurrogate reports whether a JSON string has an escape for half a surrogate pair, which
// decoding would silently replace.
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
func (o *Object) textOr(name string) string {
	if s := o.optional(name); s != nil {
		return *s
	}
	return ""
}

// Text returns a string; an empty one is a fault. It returns "" if the field is absent.
func (o *Object) Text(name string) string {
	s := o.optional(name)
	if s == nil {
		return ""
	}
	if *s == "" {
		o.Fault(name, "is empty; leave it out or give a value")
	}
	return *s
}

// Flag returns a boolean, absent if there is none.
func (o *Object) Flag(name string, absent bool) bool {
	value, ok := o.take(name)
	switch {
	case !ok:
		return absent
	case string(value) == "true":
		return true
	case string(value) == "false":
		return false
	}
	o.Fault(name, "is neither true nor false")
	return absent
}

// Duration returns a duration, 0 if absent. A duration below least is a fault.
func (o *Object) Duration(name string, least time.Duration) time.Duration {
	value, ok := o.take(name)
	if !ok {
		return 0
	}
	d, err := parseDuration(value)
	switch {
	case err != nil:
		o.Fault(name, "%v", err)
		return 0
	case d < least:
		o.Fault(name, "is %s; the least is %s", d, least)
		return 0
	}
	return d
}

// each calls f with the elements of an array, one by one, until f returns false. f must
// not keep an element after the call.
func (o *Object) each(name string, f func(i int, value json.RawMessage) bool) {
	list, ok := o.take(name)
	if !ok {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		o.Fault(name, "is not a list")
		return
	}
	var value json.RawMessage
	for i := 0; dec.More(); i++ {
		if err := dec.Decode(&value); err != nil {
			o.Fault(name, "is not a list")
			return
		}
		if !f(i, value) {
			return
		}
	}
}

// merge joins the faults of reading and of checking, without faults of checking for fields that
// could not be read.
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
