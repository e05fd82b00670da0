package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ReadInput reads the body of a request that has no query. The body may be left out.
func ReadInput(r *http.Request) (*Object, error) {
	if err := ReadQuery(r).Check(); err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(r.Body)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return &Object{fields: map[string]json.RawMessage{}, faults: &faults{}}, nil
	}
	r.Body = io.NopCloser(buffered)
	return readObject(r)
}

// Instant returns a time, zero if absent.
func (o *Object) Instant(name string) time.Time {
	s := o.Text(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		o.Fault(name, "is %q, which is not a time such as 2026-11-21T08:00:00Z", s)
	}
	return t.UTC()
}

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

// Texts returns a list of strings, nil if absent. An empty list, an entry that is no
// string or empty, and more than most entries are faults.
func (o *Object) Texts(name string, most int) []string {
	if _, given := o.fields[name]; !given {
		return nil
	}
	list := []string{}
	o.each(name, func(i int, value json.RawMessage) bool {
		at := name + "/" + strconv.Itoa(i)
		s, fault := text(value)
		switch {
		case i == most:
			o.Fault(name, "has more than %d entries", most)
			return false
		case fault != "":
			o.faults.add(o.at+"/"+at, "%s", fault)
		case s == "":
			o.faults.add(o.at+"/"+at, "is empty")
		}
		list = append(list, s)
		return !o.faults.full()
	})
	if len(list) == 0 && o.Sound() {
		o.Fault(name, "is empty; leave it out or name at least one")
	}
	return list
}

func (o *Object) FaultAt(name string, i int, format string, args ...any) {
	o.faults.add(o.at+pointer(name)+"/"+strconv.Itoa(i), format, args...)
}

// Object returns an object within this one, nil if absent.
func (o *Object) Object(name string) *Object {
	value, ok := o.take(name)
	if !ok {
		return nil
	}
	inner, ok := newObject(o.at+pointer(name), value, o.faults)
	if !ok {
		o.Fault(name, "is not an object")
		return nil
	}
	return inner
}

// Sound reports whether the request has no fault so far.
func (o *Object) Sound() bool { return o.faults.none() }

// Check calls Done. Its error, if there were faults, is the answer.
func (o *Object) Check() error {
	o.Done()
	if !o.faults.none() {
		return invalid(http.StatusBadRequest, o.faults.list)
	}
	return nil
}
