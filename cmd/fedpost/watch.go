package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"fedpost/client"
	"fedpost/internal/api/inside"
)

// watchCommand shows statistics repeatedly.
type watchCommand struct {
	remote
	Every duration `help:"Time between two updates, at least 1s. Each calls the API once or twice." default:"2s"`
	Count natural  `help:"End after this many updates. Default: until q is typed or Ctrl-C."`

	// Keys is the terminal that q is typed at; nil: the standard input.
	Keys *os.File `kong:"-"`
}

const (
	// leastEvery bounds how often watch asks the API.
	leastEvery = time.Second
	// waitingEvery is how often deliveries that wait for servers are counted, which reads each.
	waitingEvery = 30 * time.Second
	// resizeEvery is how often the size of the terminal is read.
	resizeEvery = 250 * time.Millisecond
)

// Run watches until it is interrupted. A terminal gets a view that is drawn anew in place;
// a pipe gets one line per update, with --json one report a line.
func (c watchCommand) Run(ctx context.Context, out io.Writer) (err error) {
	if time.Duration(c.Every) < leastEvery {
		return mistaken("--every %s is less than %s", time.Duration(c.Every), leastEvery)
	}
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	w := watcher{every: time.Duration(c.Every), count: int(c.Count), look: looker(api)}
	s, _ := out.(screen)
	f, isFile := s.w.(interface{ Fd() uintptr })
	switch {
	case c.JSON:
		w.show = reports{out}
	case isFile && term.IsTerminal(int(f.Fd())):
		keys, title := cmp.Or(c.Keys, os.Stdin), "fedpost at "+c.URL
		if term.IsTerminal(int(keys.Fd())) {
			title = "q quits  " + title
		}
		var restore func() error
		if ctx, restore, err = untilQuit(ctx, keys); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, restore()) }()
		w.show = &view{screen: s, title: title, size: func() (int, int, error) { return term.GetSize(int(f.Fd())) }}
	default:
		w.show = lines{out}
	}
	return w.run(ctx)
}

// glance is what one update shows.
type glance struct {
	stats   client.Stats
	history *client.History // nil: there is none
	before  *client.Stats   // of the update before
	trouble error           // why the last update failed, if it did
}

// looker returns a function that reads statistics from a fedpost.
func looker(api *client.Client) func(context.Context) (glance, error) {
	lately := inside.Lately{Every: waitingEvery, Now: time.Now}
	history := true
	return func(ctx context.Context) (g glance, err error) {
		if g.stats, err = lately.Stats(ctx, api); err != nil || !history {
			return g, err
		}
		h, err := api.History(ctx, "hour")
		if refused := (*client.Problem)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			history = false // as on AWS, where CloudWatch has it
			return g, nil
		}
		g.history = &h
		return g, err
	}
}

// display shows glances.
type display interface {
	open() error
	show(glance) error
	// resized shows the last glance again if the terminal has another size now.
	resized() error
	close() error
}

// watcher reads statistics from a fedpost repeatedly and shows them.
type watcher struct {
	every time.Duration
	count int // of updates; 0: no end
	look  func(context.Context) (glance, error)
	show  display
}

// run ends with an error if the first update fails, or if fedpost refuses a later one. While
// fedpost cannot be reached, the last glance stays, with the reason.
func (w watcher) run(ctx context.Context) (err error) {
	last, err := w.look(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	if err := w.show.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.show.close()) }()
	tick, resize := time.NewTicker(w.every), time.NewTicker(resizeEvery)
	defer tick.Stop()
	defer resize.Stop()
	for updates := 1; ; updates++ {
		if err := w.show.show(last); err != nil {
			return err
		}
		if updates == w.count {
			return nil
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-resize.C:
				if err := w.show.resized(); err != nil {
					return err
				}
			case <-tick.C:
				waiting = false
			}
		}
		g, err := w.look(ctx)
		refused := (*client.Problem)(nil)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			before := last.stats
			last, last.before = g, &before
		case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
			return err
		default:
			last.trouble = err
		}
	}
}

// reports prints the API's report of each update, one a line.
type reports struct{ out io.Writer }

func (reports) open() error    { return nil }
func (reports) resized() error { return nil }
func (reports) close() error   { return nil }

func (r reports) show(g glance) error {
	if g.trouble != nil {
		return nil // the reports are of times when fedpost answered
	}
	line, err := json.Marshal(g.stats)
	if err != nil {
		return fmt.Errorf("print a report: %w", err)
	}
	_, err = fmt.Fprintln(r.out, escaped(string(line)))
	return err
}

// lines prints the numbers of each update in one line.
type lines struct{ out io.Writer }

func (lines) open() error    { return nil }
func (lines) resized() error { return nil }
func (lines) close() error   { return nil }

func (l lines) show(g glance) error {
	if g.trouble != nil {
		_, err := fmt.Fprintln(l.out, plain(g.trouble.Error()))
		return err
	}
	parts := []string{when(g.stats.At), onQueues(g.stats) + " on queues"}
	if w := g.stats.Waiting; w != nil {
		verb := " wait"
		if w.Count == 1 {
			verb = " waits"
		}
		parts = append(parts, amount(w.Count, w.AtLeast)+verb+" for servers")
	}
	for _, name := range watched {
		parts = append(parts, fmt.Sprintf("%d %s (%s/s)", g.stats.Counts[name], name, g.rate(name)))
	}
	if servers := counts(g.stats.Servers); servers != "" {
		parts = append(parts, "servers: "+servers)
	}
	_, err := fmt.Fprintln(l.out, strings.Join(parts, "  "))
	return err
}

// onQueues is how many messages are on the queues of deliveries.
func onQueues(s client.Stats) string {
	n := 0
	for name, q := range s.Queues {
		if !strings.HasPrefix(string(name), "dead") {
			n += q.Visible + q.InFlight + q.Delayed
		}
	}
	return fmt.Sprint(n)
}

// Keys that end a view, beside q. A terminal that hands over each key as it is typed sends
// control characters in place of signals.
const (
	interrupt  = 'C' - '@'
	endOfInput = 'D' - '@'
	abandon    = '\\' - '@'
)

// untilQuit reads keys of a terminal, and ends the context that it returns when one of them ends a
// view. restore gives the terminal its former settings. If in is no terminal, it is not read.
func untilQuit(ctx context.Context, in *os.File) (until context.Context, restore func() error, err error) {
	at := int(in.Fd())
	if !term.IsTerminal(at) {
		return ctx, func() error { return nil }, nil
	}
	before, err := term.MakeRaw(at)
	if err != nil {
		return nil, nil, fmt.Errorf("read keys of the terminal: %w", err)
	}
	until, cancel := context.WithCancel(ctx)
	// This goroutine ends with the process: nothing interrupts a read of a terminal.
	go func() {
		defer cancel()
		readUntilQuit(in)
	}()
	return until, func() error {
		cancel()
		return term.Restore(at, before)
	}, nil
}

// readUntilQuit reads keys up to one that ends a view, or to the end of the terminal.
func readUntilQuit(keys io.Reader) {
	for key := make([]byte, 1); ; {
		n, err := keys.Read(key)
		switch {
		case err != nil:
			return
		case n == 0:
		case key[0] == 'q', key[0] == 'Q', key[0] == interrupt, key[0] == endOfInput, key[0] == abandon:
			return
		}
	}
}
