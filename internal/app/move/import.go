package move

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fedpost/internal/app/progress"
	"fedpost/internal/protocol/webhook"
)

type Options struct {
	// Replace what differs.
	Replace bool
	// DryRun: write nothing.
	DryRun bool
}

// Done says what was done with the things of a kind.
type Done struct {
	Added    int `json:"added"`
	Same     int `json:"same"`     // there already
	Replaced int `json:"replaced"` // because the installation had different data
	Left     int `json:"left"`     // because the installation has learnt state of its own
}

// Report says what an import did, or would do.
type Report map[kind]Done

const mostNamed = 10

// Import imports a file into an installation. If something differs and o.Replace is not set, it writes
// nothing, and the error wraps ErrDiffers. A repeated import adds what is missing.
func (f File) Import(ctx context.Context, to Installation, o Options) (Report, error) {
	report, err := plan(ctx, f, to, o)
	if err != nil || o.DryRun {
		return report, err
	}
	return apply(ctx, f, to, o)
}

func plan(ctx context.Context, f File, to Installation, o Options) (Report, error) {
	progress.Begin(ctx, "comparing", f.part)
	report, other := Report{}, []string{}
	err := f.each(func(t thing) error {
		s, err := t.stands(ctx, to)
		if err != nil {
			return fmt.Errorf("compare %s: %w", t.name(), err)
		}
		if s == differs {
			other = append(other, t.name())
		}
		report.count(t.kind(), s)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(other) > 0 && !o.Replace:
		return nil, differing(other)
	}
	there, err := to.store.Webhooks(ctx)
	if err != nil {
		return nil, err
	}
	if n := len(there) + report[webhookKind].Added; n > webhook.MostWebhooks {
		return nil, fmt.Errorf("%w: there would be %d, at most %d are possible", webhook.ErrTooMany, n, webhook.MostWebhooks)
	}
	return report, nil
}

func differing(names []string) error {
	more := ""
	if n := len(names) - mostNamed; n > 0 {
		names, more = names[:mostNamed], fmt.Sprintf(", and %d more", n)
	}
	return fmt.Errorf("%w under these names: %s%s", ErrDiffers, strings.Join(names, ", "), more)
}

func apply(ctx context.Context, f File, to Installation, o Options) (Report, error) {
	progress.Begin(ctx, "importing", f.part)
	report := Report{}
	err := f.each(func(t thing) error {
		s, err := t.stands(ctx, to)
		if err == nil && s == differs && !o.Replace {
			err = ErrDiffers // since the plan
		}
		if err == nil && (s == absent || s == differs) {
			err = t.write(ctx, to, o.Replace)
		}
		if err != nil {
			return fmt.Errorf("import %s: %w", t.name(), err)
		}
		report.count(t.kind(), s)
		return nil
	})
	return report, err
}

func (r Report) count(k kind, s standing) {
	d := r[k]
	switch s {
	case absent:
		d.Added++
	case same:
		d.Same++
	case own:
		d.Left++
	case differs:
		d.Replaced++
	}
	r[k] = d
}

// Rows is r as a table: the kind, and its counts in the order of Done.
func (r Report) Rows() (rows [][]string) {
	for _, k := range said {
		if d, ok := r[k]; ok {
			rows = append(rows, []string{kinds[k].many, strconv.Itoa(d.Added), strconv.Itoa(d.Same), strconv.Itoa(d.Replaced), strconv.Itoa(d.Left)})
		}
	}
	return rows
}
