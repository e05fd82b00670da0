package api

import (
	"fmt"
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

// ReadQuery returns the query parameters of a request. It refuses parameters that are not in
// names, given twice, or empty: a list of everything would look like the result of a misspelt
// filter. An empty cursor is the beginning of a list.
func ReadQuery(r *http.Request, names ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.New(http.StatusBadRequest, "The query of the URL is malformed: "+err.Error()+".")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return nil, problem.New(http.StatusBadRequest,
				fmt.Sprintf("There is no query parameter %q here; there are: %s.", name, strings.Join(names, ", ")))
		case len(values) > 1:
			return nil, BadParameter(name, "is given %d times", len(values))
		case values[0] == "" && name != "cursor" && name != "after":
			return nil, BadParameter(name, "is empty; leave it out or give a value")
		}
	}
	return q, nil
}

// BadParameter is the problem of a query parameter.
func BadParameter(name, format string, args ...any) error {
	return problem.New(http.StatusBadRequest, "The query parameter "+name+" "+fmt.Sprintf(format, args...)+".")
}

// ReadPage does what ReadQuery does for a list, which has the parameters cursor and limit,
// too. It returns the limit.
func ReadPage(r *http.Request, usual, most int, names ...string) (q url.Values, limit int, err error) {
	if q, err = ReadQuery(r, append(names, "cursor", "limit")...); err != nil {
		return nil, 0, err
	}
	limit, err = Number(q, "limit", usual, 1, most)
	return q, limit, err
}

// Number reads a parameter that is a number between least and most.
func Number(q url.Values, name string, absent, least, most int) (int, error) {
	s := q.Get(name)
	if s == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, BadParameter(name, "is %q; it is between %d and %d", s, least, most)
	}
	return n, nil
}

// Choice reads a parameter that is one of several values, or absent.
func Choice[T ~string](q url.Values, name string, values ...T) (T, error) {
	s := T(q.Get(name))
	if s != "" && !slices.Contains(values, s) {
		list := make([]string, len(values))
		for i, v := range values {
			list[i] = string(v)
		}
		return "", BadParameter(name, "is %q; it is one of: %s", s, strings.Join(list, ", "))
	}
	return s, nil
}

// Instant reads a parameter that is a time, zero if absent.
func Instant(q url.Values, name string) (time.Time, error) {
	s := q.Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, BadParameter(name, "is %q, which is not a time such as 2026-11-21T08:00:00Z", s)
	}
	return t.UTC(), nil
}

// BadCursor is the problem of a cursor that fedpost did not make.
func BadCursor() error {
	return BadParameter("cursor", "is not the nextCursor of an earlier answer")
}

// Host reads a parameter that is a host, in any spelling and with its port if that is not
// 443; nothing if absent.
func Host(q url.Values, name string) (string, error) {
	s := q.Get(name)
	if s == "" {
		return "", nil
	}
	u, err := url.Parse("https://" + s + "/")
	if err != nil || u.Host != s || u.User != nil {
		return "", BadParameter(name, "is %q, which is not a host such as social.example or social.example:8443", s)
	}
	host, err := activity.Authority(u)
	if err != nil {
		return "", BadParameter(name, "is %q, which is not a host: %v", s, err)
	}
	return host, nil
}
