package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

type Report struct {
	Version string   `json:"version"` // of fedpost
	Machine string   `json:"machine"`
	Units   Units    `json:"units"`
	Results []Result `json:"results"`
}

// ErrFaults says that a run lost, doubled, reordered or changed something.
var ErrFaults = errors.New("deliveries went wrong, so these figures are not valid")

// Err returns an error that wraps ErrFaults if a run has faults.
func (r Report) Err() error {
	for _, one := range r.Results {
		if len(one.Faults) > 0 {
			return fmt.Errorf("%w: %s: %s", ErrFaults, one.title(), strings.Join(one.Faults, "; "))
		}
	}
	return nil
}

// ReadReport reads a report that was written as JSON.
func ReadReport(file string) (Report, error) {
	var r Report
	if err := readJSON(file, &r); err != nil {
		return Report{}, fmt.Errorf("report to compare with, as `fedpost bench --json` writes it: %w", err)
	}
	return r, nil
}

func readJSON(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// title names the work of a run.
func (r Result) title() string {
	t := fmt.Sprintf("%s %d × %d, %s", r.Mix, r.Activities, r.Recipients, r.Key)
	switch {
	case r.HTTP2:
		t += ", TLS, HTTP/2"
	case r.TLS:
		t += ", TLS"
	}
	if r.Known {
		t += ", to servers that got an activity before"
	}
	if r.Beside > 0 {
		t += fmt.Sprintf(", beside an activity to %d", r.Beside)
	}
	if r.HangUp {
		t += ", which close each connection after its answer"
	}
	return t
}

// Print writes r for people, next to the report before, if that is not nil.
func (r Report) Print(w io.Writer, before *Report) error {
	fmt.Fprintf(w, "%s, fedpost %s\n1 RSA-2048 signature takes %.2f ms here\n", r.Machine, r.Version, r.Units.Signature*1000)
	for _, one := range r.Results {
		if err := one.print(w, before); err != nil {
			return fmt.Errorf("print report: %w", err)
		}
	}
	return nil
}

func (r Result) print(w io.Writer, before *Report) error {
	fmt.Fprintf(w, "\n%s\n", r.title())
	fmt.Fprintf(w, "  %d callers, %d hosts, %.0f %% of them hang, answers after %s, %d bytes\n", r.Callers, r.Hosts, r.Sick*100, r.Answer, r.Body)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	old := before.like(r)
	row := func(name, format string, now, then float64) {
		fmt.Fprintf(t, "  %s\t"+format, name, now)
		if old != nil && then > 0 {
			fmt.Fprintf(t, "\tbefore "+format+"\t%.2f ×", then, now/then)
		}
		fmt.Fprintln(t)
	}
	or := func(get func(Result) float64) float64 {
		if old == nil {
			return 0
		}
		return get(*old)
	}
	figures := []figure{
		{"deliveries", "%.0f", func(r Result) float64 { return float64(r.Deliveries) }},
		{"seconds", "%.2f", func(r Result) float64 { return r.Seconds }},
		{"deliveries a second", "%.0f", func(r Result) float64 { return r.PerSecond }},
		{"accepted after, p50 ms", "%.2f", func(r Result) float64 { return r.Accepting.P50 * 1000 }},
		{"accepted after, p99 ms", "%.2f", func(r Result) float64 { return r.Accepting.P99 * 1000 }},
		{"arrived after, p50 ms", "%.1f", func(r Result) float64 { return r.Arriving.P50 * 1000 }},
		{"arrived after, p99 ms", "%.1f", func(r Result) float64 { return r.Arriving.P99 * 1000 }},
		{"arrived after the 202, p50 ms", "%.1f", func(r Result) float64 { return r.Waiting.P50 * 1000 }},
		{"arrived after the 202, p99 ms", "%.1f", func(r Result) float64 { return r.Waiting.P99 * 1000 }},
		{"connections", "%.0f", func(r Result) float64 { return float64(r.Connections) }},
	}
	if r.TLS {
		figures = append(figures,
			figure{"full handshakes", "%.0f", func(r Result) float64 { return float64(r.Handshakes) }},
			figure{"resumed handshakes", "%.0f", func(r Result) float64 { return float64(r.Resumed) }},
			figure{"deliveries over HTTP/2", "%.0f", func(r Result) float64 { return float64(r.OverHTTP2) }})
	}
	if r.Server != nil {
		figures = append(figures, serverFigures...)
	}
	for _, f := range figures {
		row(f.name, f.format, f.get(r), or(f.get))
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(t, "  FAULT\t%s\n", fault)
	}
	return t.Flush()
}

// figure is a line of a printed report.
type figure struct {
	name, format string
	get          func(Result) float64
}

var serverFigures = []figure{
	{"server: processor ms a delivery", "%.3f", func(r Result) float64 { return r.server().Each }},
	{"server: RSA signatures a delivery", "%.3f", func(r Result) float64 { return r.server().InSignatures }},
	{"server: most memory, MB", "%.0f", func(r Result) float64 { return r.server().Memory }},
}

// server is what the server used, or nothing if that is not known.
func (r Result) server() Usage {
	if r.Server == nil {
		return Usage{}
	}
	return *r.Server
}

// like finds the run of the same work; nil if there is none.
func (r *Report) like(one Result) *Result {
	if r == nil {
		return nil
	}
	for i, other := range r.Results {
		if other.Plan == one.Plan {
			return &r.Results[i]
		}
	}
	return nil
}

// Budget is the processor time that a delivery may take, in RSA-2048 signatures of the same machine.
type Budget struct {
	Runs []BudgetRun `json:"runs"`
}

type BudgetRun struct {
	Plan
	InSignatures float64 `json:"inSignatures"`
	// InCalls is the time from the end of a call until its delivery begins, in durations of a
	// call, both at the median; 0: any.
	InCalls float64 `json:"inCalls,omitempty"`
}

// Tolerance is the factor by which a figure may exceed its budget, as measurements vary.
const Tolerance = 1.25

// ErrBudget says that a delivery costs more than its budget.
var ErrBudget = errors.New("over budget")

func ReadBudget(file string) (Budget, error) {
	var b Budget
	if err := readJSON(file, &b); err != nil {
		return Budget{}, fmt.Errorf("budget: %w", err)
	}
	errs := make([]error, len(b.Runs))
	for i, r := range b.Runs {
		errs[i] = r.Check()
		if !(r.InSignatures > 0) {
			errs[i] = errors.Join(errs[i], fmt.Errorf("run %d has no inSignatures", i+1))
		}
	}
	if err := errors.Join(errs...); err != nil || len(b.Runs) == 0 {
		return Budget{}, fmt.Errorf("budget: %s has %d runs: %w", file, len(b.Runs), errors.Join(err, ErrPlan))
	}
	return b, nil
}

// Over returns by what factor r exceeds the budget with the tolerance, and whether it does.
func (b BudgetRun) Over(r Result) (float64, bool) {
	factor := r.server().InSignatures / b.InSignatures
	if b.InCalls > 0 {
		factor = max(factor, r.inCalls()/b.InCalls)
	}
	return factor, factor > Tolerance || r.Server == nil
}
