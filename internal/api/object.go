package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api/iso8601"
	"fedpost/internal/enqueue"
)

// Bounds of a request. Reading stops at a bound: 800,000 unknown fields would cost seconds and
// hundreds of megabytes.
const (
	// maxFields is three times what the largest object of a request has.
	maxFields = 64
	// maxListed is how many recipients a request may list before the shared-inbox collapse.
	maxListed = 200_000
	// maxParts is how many activities of a batch are read; the setting MAX_BATCH is lower.
	maxParts = 1000
	// maxQuoted is how much of a request a fault repeats, in bytes.
	maxQuoted = 300
)

// faults lists what is wrong with a request, up to enqueue.MaxFaults faults.
type faults struct {
	list []client.FieldError
	// unread is the problem of a request that is no JSON object.
	unread error
}

// add records a fault. Both texts may quote the request, so both are shortened.
func (f *faults) add(pointer, format string, args ...any) {
	if f.full() {
		return
	}
	f.list = append(f.list, client.FieldError{
		Pointer: outcome.Clean(pointer, maxQuoted), Detail: outcome.Clean(fmt.Sprintf(format, args...), maxQuoted),
	})
}

func (f *faults) none() bool { return len(f.list) == 0 && f.unread == nil }

// full reports whether there are as many faults as an answer lists.
func (f *faults) full() bool { return len(f.list) >= enqueue.MaxFaults }

// pointer is one step of a JSON pointer (RFC 6901).
func pointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name[:min(len(name), maxQuoted)])
}

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

// newObject reads text, which is valid JSON. If it is no object, the result is empty, and ok false.
func newObject(at string, text []byte, faults *faults) (o *Object, ok bool) {
	o = &Object{at: at, fields: map[string]json.RawMessage{}, faults: faults}
	n := 0
	ok = activity.Members(text, func(name string, value json.RawMessage) bool {
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
	return o, ok
}

// inner reads an object within this one; a fault says that it is none.
func (o *Object) inner(at string, text []byte, fault string) *Object {
	inner, ok := newObject(at, text, o.faults)
	if !ok {
		o.faults.add(at, "%s", fault)
	}
	return inner
}

func (o *Object) Fault(name, format string, args ...any) {
	o.faults.add(o.at+pointer(name), format, args...)
}

func (o *Object) FaultAt(name string, i int, format string, args ...any) {
	o.faults.add(o.at+pointer(name)+"/"+strconv.Itoa(i), format, args...)
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

// Sound reports whether the request has no fault so far.
func (o *Object) Sound() bool { return o.faults.none() }

// Check calls Done. Its error, if the request could not be read or has faults, is the answer.
func (o *Object) Check() error {
	o.Done()
	switch {
	case o.faults.unread != nil:
		return o.faults.unread
	case o.Sound():
		return nil
	}
	return invalid(http.StatusBadRequest, o.faults.list)
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
		r := escaped(value[i:])
		if !utf16.IsSurrogate(r) {
			i++ // the character after the backslash may be another one
			continue
		}
		if utf16.DecodeRune(r, escaped(value[i+6:])) == unicode.ReplacementChar {
			return true
		}
		i += 11
	}
	return false
}

// escaped is what an escape such as \ud83d at the beginning of b stands for; 0 if there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
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

// Instant returns a time, zero if absent.
func (o *Object) Instant(name string) time.Time { return instant(name, o.Text(name), o.Fault) }

// Number returns a whole number between 1 and most, 0 if absent.
func (o *Object) Number(name string, most int) int {
	value, ok := o.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 1 || n > most {
		o.Fault(name, "is %s; it is a whole number between 1 and %d", value, most)
		return 0
	}
	return n
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

// parseDuration reads a duration in ISO 8601, without years and months, in the notations of
// settings (iso8601.Short), or in seconds.
func parseDuration(value json.RawMessage) (time.Duration, error) {
	if value[0] != '"' {
		return seconds(string(value))
	}
	s, fault := text(value)
	if fault != "" {
		return 0, iso8601.ErrFormat
	}
	if s != "" && strings.Trim(s, "0123456789") == "" {
		return seconds(s)
	}
	if d, ok := iso8601.Short(s); ok {
		if d < 0 {
			return 0, iso8601.ErrNegative
		}
		return iso8601.Seconds(d.Seconds())
	}
	d, err := iso8601.Parse(s)
	switch {
	case err != nil:
		return 0, err
	case d.Years != 0 || d.Months != 0:
		return 0, errors.New("has years or months, which differ in length; give days")
	case d.Negative:
		return 0, iso8601.ErrNegative
	}
	return iso8601.Seconds(d.Weeks*7*24*3600 + d.Days*24*3600 + d.Hours*3600 + d.Minutes*60 + d.Seconds)
}

func seconds(s string) (time.Duration, error) {
	n, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, iso8601.ErrTooLong
	}
	if err != nil {
		return 0, iso8601.ErrFormat
	}
	return iso8601.Seconds(n)
}

// Object returns an object within this one, nil if absent.
func (o *Object) Object(name string) *Object {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	return o.inner(o.at+pointer(name), value, "is not an object")
}

// Texts returns a list of strings, nil if absent. An empty list, an entry that is no
// string or empty, and more than most entries are faults.
func (o *Object) Texts(name string, most int) []string {
	if _, given := o.fields[name]; !given {
		return nil
	}
	all := list(o, name, most, func(at string, value json.RawMessage) string {
		s, fault := text(value)
		if fault == "" && s == "" {
			fault = "is empty"
		}
		if fault != "" {
			o.faults.add(at, "%s", fault)
		}
		return s
	})
	if len(all) == 0 && o.Sound() {
		o.Fault(name, "is empty; leave it out or name at least one")
	}
	return all
}

// list reads a list of at most most entries. read gets an entry's JSON pointer and its value, which it
// must not keep.
func list[T any](o *Object, name string, most int, read func(at string, value json.RawMessage) T) (all []T) {
	text, ok := o.take(name)
	if !ok {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		o.Fault(name, "is not a list")
		return nil
	}
	var value json.RawMessage
	at := o.at + pointer(name) + "/"
	for i := 0; dec.More() && !o.faults.full(); i++ {
		if i == most {
			o.Fault(name, "has more than %d entries", most)
			return nil // faults of the entries do not matter
		}
		if err := dec.Decode(&value); err != nil {
			o.Fault(name, "is not a list")
			return all
		}
		all = append(all, read(at+strconv.Itoa(i), value))
	}
	return all
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
