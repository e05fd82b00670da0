package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/app/progress"
	"fedpost/internal/keys"
)

// keysImport stores many keys. It can be repeated: keys that are stored already are left.
type keysImport struct {
	remote
	File    string `arg:"" help:"File with a JSON object on each line, {\"id\": …, \"privateKeyPem\": …}; - is the standard input."`
	Replace bool   `help:"Replace stored keys that differ. By default they are kept and reported."`
}

const (
	importers  = 16        // calls at once
	maxKeyLine = 128 << 10 // bytes; a key has 32 KiB at most
	mostFaults = 20        // that are listed
)

// imported counts what became of the lines of a file.
type imported struct {
	Added    int      `json:"added"`
	There    int      `json:"there"`
	Replaced int      `json:"replaced"`
	Failed   int      `json:"failed"`
	Faults   []string `json:"faults"` // the first ones, with their lines
}

func (c keysImport) Run(ctx context.Context, out io.Writer) error {
	in := os.Stdin
	if c.File != "-" {
		var err error
		if in, err = os.Open(c.File); err != nil {
			return err
		}
		defer in.Close() // it is only read
	}
	carrier := http.DefaultTransport.(*http.Transport).Clone()
	carrier.MaxIdleConnsPerHost = importers
	defer carrier.CloseIdleConnections() // a server that ends waits 5 s for those that were never used
	c.Transport, c.Patience = carrier, time.Minute
	api, err := c.client(ctx)
	if err != nil {
		return err
	}
	n := imported{Faults: []string{}}
	var counting sync.Mutex
	begun, part := time.Now(), progress.Of(in)
	stop := showing(func() string {
		counting.Lock()
		defer counting.Unlock()
		read, all := part()
		done := n.Added + n.There + n.Replaced + n.Failed
		return fmt.Sprintf("%d keys, %.0f a second", done, float64(done)/time.Since(begun).Seconds()) + left(begun, read, all)
	})
	err = c.each(ctx, in, func(ctx context.Context, line int, text []byte) error {
		became, err := c.one(ctx, api, text, &n)
		counting.Lock()
		defer counting.Unlock()
		return n.count(line, became, err)
	})
	stop()
	if err != nil {
		return fmt.Errorf("stopped after %d keys: %w; run it again, and it goes on", n.Added+n.Replaced, err)
	}
	return c.show(out, n)
}

func (c keysImport) show(out io.Writer, n imported) error {
	if c.JSON {
		if err := printJSON(out, n); err != nil {
			return err
		}
	} else {
		if _, err := fmt.Fprintf(out, "%d added, %d there already, %d replaced, %d failed\n", n.Added, n.There, n.Replaced, n.Failed); err != nil {
			return err
		}
		for _, f := range n.Faults {
			if _, err := fmt.Fprintln(out, plain(f)); err != nil {
				return err
			}
		}
	}
	if n.Failed > 0 {
		return fmt.Errorf("%d of the keys were not imported", n.Failed)
	}
	return nil
}

// each calls do for each line, on several goroutines, until one returns an error.
func (keysImport) each(ctx context.Context, in io.Reader, do func(ctx context.Context, line int, text []byte) error) error {
	g, working := errgroup.WithContext(ctx)
	g.SetLimit(importers)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxKeyLine)
	for n := 1; lines.Scan() && working.Err() == nil; n++ {
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			text = slices.Clone(text)
			g.Go(func() error { return do(working, n, text) })
		}
	}
	err := g.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return errors.Join(err, lines.Err())
}

// errLine is a line that cannot be imported; the others can.
var errLine = errors.New("not imported")

// one imports a line, and returns the counter of n that it belongs to.
func (c keysImport) one(ctx context.Context, api *client.Client, text []byte, n *imported) (*int, error) {
	var k struct {
		ID            string `json:"id"`
		PrivateKeyPEM string `json:"privateKeyPem"`
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&k); err != nil {
		return nil, fmt.Errorf("%w: no object with id and privateKeyPem: %w", errLine, err)
	}
	public, err := keys.Moved{ID: k.ID, PrivateKeyPEM: k.PrivateKeyPEM}.Public()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLine, err)
	}
	became := &n.Added
	var p *client.Problem
	switch known, err := api.Key(ctx, k.ID); {
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
	case err != nil:
		return nil, err
	case known.PublicKeyPEM == public.PublicPEM:
		return &n.There, nil
	case !c.Replace:
		return nil, fmt.Errorf("%w: another key of the id %s is stored; --replace overwrites it", errLine, k.ID)
	default:
		became = &n.Replaced
	}
	if _, err := api.PutKey(ctx, k.ID, k.PrivateKeyPEM); errors.As(err, &p) && p.Status == http.StatusBadRequest {
		return nil, fmt.Errorf("%w: %w", errLine, err)
	} else if err != nil {
		return nil, err
	}
	return became, nil
}

// count counts a line, and returns errors that are not about the line.
func (n *imported) count(line int, became *int, err error) error {
	switch {
	case errors.Is(err, errLine):
		n.Failed++
		if len(n.Faults) < mostFaults {
			n.Faults = append(n.Faults, fmt.Sprintf("line %d: %v", line, err))
		}
	case err != nil:
		return err
	default:
		*became++
	}
	return nil
}
