package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"fedpost/client"
	"fedpost/internal/app/bench"
)

// benchCommand measures a fedpost under load.
type benchCommand struct {
	Mix        []bench.Mix `help:"Kinds of work, one run each: fanout, single, ordered, keyed." default:"single,fanout"`
	Key        []string    `help:"Kinds of key, one run each: rsa, ed25519." default:"rsa"`
	Activities int         `help:"Activities of a run. Default: 1 for fanout, 500 for ordered, else 2000."`
	Recipients int         `help:"Recipients of each activity. Default: 5000 for fanout, 5 for ordered, else 1."`
	Callers    int         `help:"Calls to the API at once." default:"32"`
	Rate       float64     `help:"Calls a second of all callers together; 0: one call after the other." placeholder:"NUMBER"`
	Hosts      int         `help:"Receiving servers." default:"200"`
	TLS        bool        `name:"tls" help:"Receiving servers use TLS 1.3."`
	HTTP2      bool        `name:"http2" help:"Receiving servers also offer HTTP/2."`
	Known      bool        `help:"First deliver one activity to each receiving server, unmeasured, to have connections and TLS sessions."`
	HangUp     bool        `name:"hang-up" help:"Close the connection after each answer, so that each delivery needs a new one."`
	Answer     bench.Times `help:"How long receiving servers take to answer: 20ms, 5ms-50ms, or ~20ms for a mean." default:"0"`
	Sick       float64     `help:"Share of receiving servers that never answer, such as 0.1." placeholder:"SHARE"`
	Body       int         `help:"Bytes of an activity." default:"1500"`
	Beside     int         `help:"Recipients of one more activity, delivered during the measurement but not measured."`
	Within     duration    `help:"Longest time for one run." default:"5m"`

	URL        string `help:"Measure a running fedpost, such as http://127.0.0.1:8080, instead of starting one. It needs --allow-private, or use --sink-url." placeholder:"URL"`
	AWSRegion  string `name:"aws-region" help:"Sign requests to --url with your AWS credentials for this region. Not needed for API Gateway's own names." env:"FEDPOST_AWS_REGION"`
	Token      string `help:"Token of the API at --url." env:"FEDPOST_API_TOKEN"`
	PID        int    `name:"pid" help:"Process id of the fedpost at --url on this machine, to read its processor time and memory."`
	SinkListen string `help:"With --sink-url: address where the receiving server listens." default:"127.0.0.1:8090"`
	SinkURL    string `help:"URL at which a remote fedpost at --url reaches --sink-listen, through your proxy or tunnel. Everything then goes to one host." placeholder:"URL"`

	JSON       bool   `help:"Print the report as JSON."`
	Compare    string `help:"Report of an earlier measurement (--json) to compare with." type:"existingfile" placeholder:"FILE"`
	Budget     string `help:"Measure what this file lists, and fail if a delivery costs over a quarter more than the file says." type:"existingfile" placeholder:"FILE"`
	Server     string `help:"Program to measure: another build of fedpost, or a peer (bench/peers)." type:"existingfile" placeholder:"FILE"`
	IDsOnly    bool   `name:"ids-only" help:"With --server: compare ids instead of bytes, for a peer that adds a signature to the body."`
	CPUProfile string `name:"cpu-profile" help:"Write the server's processor profile to this file; with one run only." placeholder:"FILE"`
}

func (c benchCommand) Run(ctx context.Context, out io.Writer) error {
	if c.Budget != "" {
		return c.budget(ctx, out)
	}
	plans, err := c.plans()
	if err != nil {
		return err
	}
	var before *bench.Report
	if c.Compare != "" {
		r, err := bench.ReadReport(c.Compare)
		if err != nil {
			return err
		}
		before = &r
	}
	units, err := bench.MeasureUnits()
	if err != nil {
		return err
	}
	report := bench.Report{Version: version(), Machine: machine(), Units: units}
	for _, p := range plans {
		r, err := c.run(ctx, p, units)
		if err != nil {
			return err
		}
		report.Results = append(report.Results, r)
	}
	if c.JSON {
		err = printJSON(out, report)
	} else {
		err = report.Print(out, before)
	}
	return errors.Join(err, report.Err())
}

// plans are the runs that the flags ask for.
func (c benchCommand) plans() ([]bench.Plan, error) {
	var plans []bench.Plan
	var errs []error
	for _, mix := range c.Mix {
		for _, key := range c.Key {
			p := bench.Plan{
				Mix: mix, Activities: c.Activities, Recipients: c.Recipients, Callers: c.Callers, Rate: c.Rate, Hosts: c.Hosts, Key: key,
				TLS: c.TLS, HTTP2: c.HTTP2, Known: c.Known, HangUp: c.HangUp, Answer: c.Answer, Sick: c.Sick, Body: c.Body, Beside: c.Beside,
			}
			p = p.WithDefaults()
			plans = append(plans, p)
			errs = append(errs, p.Check())
		}
	}
	if c.CPUProfile != "" && (len(plans) != 1 || c.URL != "") {
		errs = append(errs, errors.New("--cpu-profile takes one --mix and one --key, and no --url"))
	}
	if c.IDsOnly && c.Server == "" {
		errs = append(errs, errors.New("--ids-only is for a peer that --server names; fedpost changes no body"))
	}
	if c.SinkURL != "" && c.URL == "" {
		errs = append(errs, errors.New("--sink-url is for a fedpost at --url"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, mistaken("%w", err)
	}
	return plans, nil
}

// run makes one run: on a server and a directory of its own, or on the one at --url.
func (c benchCommand) run(ctx context.Context, p bench.Plan, u bench.Units) (r bench.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Within))
	defer cancel()
	ctx, stop := shown(ctx)
	defer stop()
	sinks, err := c.sinks(p)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sinks.Close()) }()
	sinks.IDsOnly = c.IDsOnly
	if c.URL != "" {
		api, err := reach{URL: c.URL, AWSRegion: c.AWSRegion, Token: c.Token}.client(ctx)
		if err != nil {
			return r, err
		}
		return bench.Run(ctx, api, c.PID, sinks, u)
	}
	program := c.Server
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return r, fmt.Errorf("find the program to measure: %w", err)
		}
	}
	var flags []string
	if c.CPUProfile != "" {
		flags = append(flags, "--cpu-profile", c.CPUProfile)
	}
	s, err := bench.StartServer(ctx, program, sinks.CA, flags)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	api, err := client.New(s.URL, client.Patience(0), client.HTTPClient(bench.Caller(p)))
	if err != nil {
		return r, err
	}
	return bench.Run(ctx, api, s.PID, sinks, u)
}

func (c benchCommand) sinks(p bench.Plan) (*bench.Sinks, error) {
	if c.SinkURL != "" {
		return bench.NewSinkAt(p, c.SinkListen, c.SinkURL)
	}
	return bench.NewSinks(p)
}

// budgetTries is how often a kind of work is measured before it counts as over budget: other work of
// the machine only adds to a figure.
const budgetTries = 3

// budget measures the runs of a budget.
func (c benchCommand) budget(ctx context.Context, out io.Writer) error {
	b, err := bench.ReadBudget(c.Budget)
	if err != nil {
		return err
	}
	var over []error
	for _, want := range b.Runs {
		err := fmt.Errorf("%s %s: not measured", want.Mix, want.Key)
		for try := 0; try < budgetTries && err != nil; try++ {
			if err = c.within(ctx, out, want); err != nil && !errors.Is(err, bench.ErrBudget) {
				return err
			}
		}
		over = append(over, err)
	}
	return errors.Join(over...)
}

// within measures one run of a budget.
func (c benchCommand) within(ctx context.Context, out io.Writer, want bench.BudgetRun) error {
	units, err := bench.MeasureUnits()
	if err != nil {
		return err
	}
	r, err := c.run(ctx, want.Plan, units)
	if err != nil {
		return err
	}
	if err := (bench.Report{Results: []bench.Result{r}}).Err(); err != nil {
		return err
	}
	factor, over := want.Over(r)
	if r.Server == nil {
		return fmt.Errorf("%w: the processor time of another process is known on Linux only", bench.ErrPlan)
	}
	if _, err := fmt.Fprintf(out, "%s %d × %d, %s: %.3f signatures a delivery, begun %.1f ms after a call of %.1f ms, %.2f × the budget\n", r.Mix, r.Activities, r.Recipients, r.Key, r.Server.InSignatures, 1000*r.Waiting.P50, 1000*r.Accepting.P50, factor); err != nil {
		return err
	}
	if over {
		return fmt.Errorf("%w: %s %s %.2f × what is planned", bench.ErrBudget, r.Mix, r.Key, factor)
	}
	return nil
}

// machine describes this machine.
func machine() string {
	m := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m // only Linux has it
	}
	_, model, _ := strings.Cut(string(text), "model name\t: ")
	if model, _, _ = strings.Cut(model, "\n"); model != "" {
		m += ", " + model
	}
	return m
}

// version is the version that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return info.Main.Version
}
