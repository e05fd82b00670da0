package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"fedpost/internal/api/iso8601"
)

// Fault says what is wrong with one variable.
type Fault struct {
	Variable string
	Wrong    string // "is not set", "is \"1 hour\", which is not a duration"
	Fix      string // what to do
}

func (f Fault) String() string { return f.Variable + " " + f.Wrong + "; " + f.Fix }

// Error lists everything that is wrong with the configuration.
type Error struct{ Faults []Fault }

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the configuration cannot be used:")
	for _, f := range e.Faults {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// LogValue implements slog.LogValuer, with a list in place of line breaks.
func (e *Error) LogValue() slog.Value {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return slog.AnyValue(lines)
}

// report collects the faults of one concern. All share faulty, because some concerns check each
// other's variables.
type report struct {
	fields []field
	env    map[string]string
	faulty map[string]bool
	faults []Fault
}

// add records a fault, unless the variable has one already: a value that cannot be parsed also
// breaks other rules.
func (r *report) add(variable, wrong, fix string) {
	if r.faulty[variable] {
		return
	}
	r.faulty[variable] = true
	r.faults = append(r.faults, Fault{variable, wrong, fix})
}

// parsed records the values that could not be parsed and the variables that are
// missing.
func (r *report) parsed(err error) {
	unread := map[string]error{}
	if all, ok := errors.AsType[env.AggregateError](err); ok {
		for _, one := range all.Errors {
			p, ok := errors.AsType[env.ParseError](one)
			if !ok {
				// All other errors are about wrong tags.
				panic(fmt.Sprintf("config: %v", one))
			}
			unread[p.Name] = p.Err
		}
	}
	for _, f := range r.fields {
		switch {
		case unread[f.name] != nil:
			r.add(f.Name, r.shown(f)+", which is "+unread[f.name].Error(), "set it to "+f.Help)
		case f.Required && r.env[f.Name] == "":
			r.add(f.Name, "is not set", "set it to "+f.Help)
		}
	}
}

// shown is a variable's value for a message, or a placeholder for a secret.
func (r *report) shown(f field) string {
	if f.Secret {
		return "has a value"
	}
	return fmt.Sprintf("is %q", r.env[f.Name])
}

// bounds checks the variables that have a minimum or maximum.
func (r *report) bounds(v reflect.Value) {
	for _, f := range r.fields {
		got := v.Field(f.index)
		if got.Kind() == reflect.Pointer {
			if got.IsNil() {
				continue
			}
			got = got.Elem()
		}
		if f.Min != "" && less(got, f.Min) {
			r.add(f.Name, r.shown(f)+", which is less than "+f.Min, "set it to "+f.Help)
		}
		if f.Max != "" && more(got, f.Max) {
			r.add(f.Name, r.shown(f)+", which is more than "+f.Max, "set it to "+f.Help)
		}
	}
}

func (r *report) oneOf(variable, got string, words ...string) {
	if slices.Contains(words, got) {
		return
	}
	last := len(words) - 1
	r.add(variable, fmt.Sprintf("is %q", got), "set it to "+strings.Join(words[:last], ", ")+" or "+words[last])
}

// token checks a variable that becomes part of a name.
func (r *report) token(variable, got string, most int) {
	outside := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}
	if len(got) > most || strings.ContainsFunc(got, outside) {
		r.add(variable, fmt.Sprintf("is %q", got), fmt.Sprintf("set it to up to %d letters, digits, - and _", most))
	}
}

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
