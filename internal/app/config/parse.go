package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"fedpost/internal/api/iso8601"
)

// parsers replace the library's own, whose errors name Go functions. Their errors complete the
// sentence "X is …, which is …".
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[int]():           func(s string) (any, error) { return parseInt(s) },
	reflect.TypeFor[bool]():          func(s string) (any, error) { return parseBool(s) },
	reflect.TypeFor[float64]():       func(s string) (any, error) { return parseFloat(s) },
	reflect.TypeFor[time.Duration](): func(s string) (any, error) { return ParseDuration(s) },
}

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("not a whole number")
	}
	return n, nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, errors.New("neither true nor false")
}

func parseFloat(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != f {
		return 0, errors.New("not a number")
	}
	return f, nil
}

// ParseDuration reads a duration: 90s or 1h30m as in Go, 30d for days, PT1H30M as in ISO 8601 (a
// month has 30 days, a year 365), or a number of seconds.
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseAnyDuration(s)
	switch {
	case err != nil:
		return 0, errors.New("not a duration")
	case d < 0:
		return 0, errors.New("a negative duration")
	}
	return d, nil
}

func parseAnyDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		const most = int64(1<<63-1) / int64(time.Second)
		if n > most || n < -most {
			return 0, fmt.Errorf("%d seconds are out of range", n)
		}
		return time.Duration(n) * time.Second, nil
	}
	if d, ok := iso8601.Short(s); ok {
		return d, nil
	}
	iso, err := iso8601.Parse(s)
	if err != nil {
		return 0, err
	}
	days := 365*iso.Years + 30*iso.Months + 7*iso.Weeks + iso.Days
	seconds := ((days*24+iso.Hours)*60+iso.Minutes)*60 + iso.Seconds
	if seconds > float64(1<<62)/float64(time.Second) {
		return 0, errors.New("out of range")
	}
	d := time.Duration(seconds * float64(time.Second))
	if iso.Negative {
		d = -d
	}
	return d, nil
}

// less and more compare a value with a bound of a tag.
func less(v reflect.Value, bound string) bool { return number(v) < boundOf(v, bound) }
func more(v reflect.Value, bound string) bool { return number(v) > boundOf(v, bound) }

func number(v reflect.Value) float64 {
	if v.Kind() == reflect.Float64 {
		return v.Float()
	}
	return float64(v.Int())
}

func boundOf(v reflect.Value, bound string) float64 {
	b, err := parsers[v.Type()](bound)
	if err != nil {
		panic(fmt.Sprintf("config: bound %q is %v", bound, err))
	}
	return number(reflect.ValueOf(b))
}
