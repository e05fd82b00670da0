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

// Input is the JSON body of a request to a route of another package. Input is read as
// strictly as this package reads its own requests: each method takes one field and notes
// its faults, and Check returns all of them.
type Input struct{ o *object }

// ReadInput reads a request's body, which may be left out.
func ReadInput(r *http.Request) (Input, error) {
	buffered := bufio.NewReader(r.Body)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return Input{&object{fields: map[string]json.RawMessage{}, faults: &faults{}}}, nil
	}
	r.Body = io.NopCloser(buffered)
	o, err := readObject(r)
	return Input{o}, err
}

// Text returns a string; an empty one is a fault. It returns "" if the field is absent.
func (in Input) Text(name string) string { return in.o.named(name) }

// Bool returns whether a field is true; an absent one is false.
func (in Input) Bool(name string) bool { return in.o.flag(name, false) }

// Duration returns a duration, 0 if absent. A duration below least is a fault.
func (in Input) Duration(name string, least time.Duration) time.Duration {
	return in.o.duration(name, least)
}

// Instant returns a time, zero if absent.
func (in Input) Instant(name string) time.Time {
	s := in.o.named(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		in.Fault(name, "is %q, which is not a time such as 2026-11-21T08:00:00Z", s)
	}
	return t.UTC()
}

// Number returns a whole number between 1 and most, 0 if absent.
func (in Input) Number(name string, most int) int {
	value, ok := in.o.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(string(value))
	if err != nil || n < 1 || n > most {
		in.Fault(name, "is %s; it is a whole number between 1 and %d", value, most)
		return 0
	}
	return n
}

// Texts returns a list of strings, nil if absent. An empty list, an entry that is no
// string or empty, and more than most entries are faults.
func (in Input) Texts(name string, most int) []string {
	if _, given := in.o.fields[name]; !given {
		return nil
	}
	list := []string{}
	in.o.each(name, func(i int, value json.RawMessage) bool {
		at := name + "/" + strconv.Itoa(i)
		s, fault := text(value)
		switch {
		case i == most:
			in.Fault(name, "has more than %d entries", most)
			return false
		case fault != "":
			in.o.faults.add(in.o.at+"/"+at, "%s", fault)
		case s == "":
			in.o.faults.add(in.o.at+"/"+at, "is empty")
		}
		list = append(list, s)
		return !in.o.faults.full()
	})
	if len(list) == 0 && in.Sound() {
		in.Fault(name, "is empty; leave it out or name at least one")
	}
	return list
}

// FaultAt notes what is wrong with an entry of a list.
func (in Input) FaultAt(name string, i int, format string, args ...any) {
	in.o.faults.add(in.o.at+pointer(name)+"/"+strconv.Itoa(i), format, args...)
}

// Object returns an object within this one, nil if absent.
func (in Input) Object(name string) *Input {
	value, ok := in.o.take(name)
	if !ok {
		return nil
	}
	inner, ok := newObject(in.o.at+pointer(name), value, in.o.faults)
	if !ok {
		in.Fault(name, "is not an object")
		return nil
	}
	return &Input{inner}
}

// Fault notes what is wrong with a field.
func (in Input) Fault(name, format string, args ...any) { in.o.fault(name, format, args...) }

// Sound reports whether the request has no fault so far.
func (in Input) Sound() bool { return in.o.faults.none() }

// Done notes every field that was not taken as unknown. Call it for an object
// inside another; Check does the same for the whole request.
func (in Input) Done() { in.o.done() }

// Check calls Done. Its error, if there were faults, is the answer.
func (in Input) Check() error {
	in.o.done()
	if !in.o.faults.none() {
		return invalid(http.StatusBadRequest, in.o.faults.list)
	}
	return nil
}

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, r *http.Request, status int, v any) error {
	return answer(w, r, status, v)
}
