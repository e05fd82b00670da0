package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"fedpost/internal/activity"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
	"fedpost/internal/ledger/events"
)

// usual is how many columns a terminal of unknown width is taken to have.
const usual = 80

// help prints the help of a command. The line of usage is printed here, because kong wraps
// every line of a help but that one.
func help(o kong.HelpOptions, k *kong.Context) error {
	if c := k.Selected(); c != nil {
		width := usual
		if f, ok := k.Stdout.(*os.File); ok {
			width = cmp.Or(screenOn(f).width, usual)
		}
		usage := "Usage: " + k.Model.Name + " "
		if _, err := fmt.Fprintln(k.Stdout, wrapped(usage+c.Summary(), width, len(usage))); err != nil {
			return err
		}
		o.NoAppSummary = true
	}
	return kong.DefaultHelpPrinter(o, k)
}

// usageExit is the exit status after a mistake on the command line.
const usageExit = 2

// mistaken is a mistake on the command line that the command finds itself.
func mistaken(format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), usageExit}
}

// mistake is a mistake on the command line, with the command whose help has the answer.
func mistake(err error) string {
	command := "fedpost"
	if e := (*kong.ParseError)(nil); errors.As(err, &e) && e.Context != nil {
		for _, at := range e.Context.Path {
			if at.Command != nil {
				command = at.Command.FullPath()
			}
		}
	}
	return hinted(err, command)
}

// exitStatus is 1, except for errors that have one of their own.
func exitStatus(err error) int {
	var own exitError
	var address local.AddressError
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &address):
		return usageExit
	}
	return 1
}

// hinted says a mistake in one line.
func hinted(err error, command string) string {
	return fmt.Sprintf("fedpost: %s (see %s --help)", strings.ReplaceAll(err.Error(), "\n", "; "), command)
}

// allowed are the values of flags that take one of a few; the empty one is a flag that is
// not given.
func allowed() kong.Vars {
	return kong.Vars{
		"priorities": optional(activity.Priorities),
		"states":     optional(activity.States),
		"phases":     optional(registry.Phases),
		"events":     joined(events.Kinds),
	}
}

func joined[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ",")
}

func optional[T ~string](all []T) string { return joined(slices.Concat(all, []T{""})) }

// positive is a flag that takes a whole number from 1 on.
type positive int

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *positive) UnmarshalText(text []byte) error {
	return wholeFrom(1, text, (*int)(p))
}

// natural is a flag or an argument that takes a whole number from 0 on.
type natural int

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *natural) UnmarshalText(text []byte) error {
	return wholeFrom(0, text, (*int)(n))
}

func wholeFrom(least int, text []byte, n *int) (err error) {
	if *n, err = strconv.Atoi(string(text)); err != nil || *n < least {
		return fmt.Errorf("%q is not a whole number from %d on", text, least)
	}
	return nil
}

// duration is a flag in all the notations of settings, such as 7d.
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := config.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is %w: write it like 90s, 1h30m, 7d or PT1H", text, err)
	}
	*d = duration(v)
	return nil
}

// moment is a flag for a time.
type moment time.Time

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is no time: write it like 2026-11-21T08:00:00Z", text)
	}
	*m = moment(t)
	return nil
}
