package api

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/api/problem"
)

// Sizes of a page.
const (
	UsualPage = 100
	MostPage  = 1000
)

// Query has the query parameters of a request, and the first fault in them.
type Query struct {
	url.Values
	err error
}

// ReadQuery returns the query parameters of a request. Parameters that are not in names, given
// twice, or empty are faults: a list of everything would look like the result of a misspelt
// filter. An empty cursor is the beginning of a list.
func ReadQuery(r *http.Request, names ...string) *Query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &Query{err: problem.New(http.StatusBadRequest, "The query of the URL is malformed: "+err.Error()+".")}
	}
	q := &Query{Values: values}
	for _, name := range slices.Sorted(maps.Keys(q.Values)) {
		switch values := q.Values[name]; {
		case !slices.Contains(names, name):
			return &Query{err: problem.New(http.StatusBadRequest,
				fmt.Sprintf("There is no query parameter %q here; there are: %s.", name, cmp.Or(strings.Join(names, ", "), "none")))}
		case len(values) > 1:
			q.Fault(name, "is given %d times", len(values))
		case values[0] == "" && name != "cursor" && name != "after":
			q.Fault(name, "is empty; leave it out or give a value")
		}
	}
	return q
}

// Check returns the problem of the first fault, if there is one.
func (q *Query) Check() error { return q.err }

func (q *Query) Fault(name, format string, args ...any) {
	if q.err == nil {
		q.err = badParameter(name, format, args...)
	}
}

func badParameter(name, format string, args ...any) error {
	return problem.New(http.StatusBadRequest, "The query parameter "+name+" "+fmt.Sprintf(format, args...)+".")
}

// ReadPage does what ReadQuery does for a list, which has the parameters cursor and limit,
// too. It returns the limit.
func ReadPage(r *http.Request, usual, most int, names ...string) (q *Query, limit int) {
	q = ReadQuery(r, append(names, "cursor", "limit")...)
	return q, q.Number("limit", usual, 1, most)
}

// Number reads a parameter that is a number between least and most.
func (q *Query) Number(name string, absent, least, most int) int {
	s := q.Get(name)
	if s == "" {
		return absent
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		q.Fault(name, "is %q; it is between %d and %d", s, least, most)
	}
	return n
}

// Choice reads a parameter that is one of several values, or absent.
func Choice[T ~string](q *Query, name string, values ...T) T {
	s := T(q.Get(name))
	if s != "" && !slices.Contains(values, s) {
		q.Fault(name, "is %q; it is one of: %s", s, strings.Join(Texts(values), ", "))
	}
	return s
}

// Texts are values of a closed set as strings.
func Texts[T ~string](values []T) []string {
	return Each(values, func(v T) string { return string(v) })
}

// Each applies a function to each entry of a list. The result is never nil, which JSON would write
// as null.
func Each[T, V any](all []T, f func(T) V) []V {
	shown := make([]V, len(all))
	for i, one := range all {
		shown[i] = f(one)
	}
	return shown
}

func (q *Query) Flag(name string) bool { return Choice(q, name, "true", "false") == "true" }

// Instant reads a parameter that is a time, zero if absent.
func (q *Query) Instant(name string) time.Time { return instant(name, q.Get(name), q.Fault) }

// instant reads the time that a field or parameter is, zero if it is empty.
func instant(name, s string, fault func(name, format string, args ...any)) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		fault(name, "is %q, which is not a time such as 2026-11-21T08:00:00Z", s)
	}
	return t.UTC()
}

// BadCursor is the problem of a cursor that fedpost did not make.
func BadCursor() error {
	return badParameter("cursor", "is not the nextCursor of an earlier answer")
}

// Host reads a parameter that is a host, in any spelling and with its port if that is not
// 443; nothing if absent.
func (q *Query) Host(name string) string {
	s := q.Get(name)
	if s == "" {
		return ""
	}
	u, err := url.Parse("https://" + s + "/")
	if err != nil || u.Host != s || u.User != nil {
		q.Fault(name, "is %q, which is not a host such as social.example or social.example:8443", s)
		return ""
	}
	host, err := activity.Authority(u)
	if err != nil {
		q.Fault(name, "is %q, which is not a host: %v", s, err)
	}
	return host
}
