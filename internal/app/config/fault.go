package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
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
