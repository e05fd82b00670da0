package peers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// Prober marks servers and runs the checks that are due.
type Prober struct {
	Registry Store
	Schedule Schedule
	HTTP     Exchange
	Policies Policies
	Log      *slog.Logger
	Now      func() time.Time
	// Concurrency is how many servers are checked at once.
	Concurrency int
	// Limit is how many checks of an outage may fail before they end.
	Limit int
}

const (
	// lease is how long a run has a check for itself: ProbeTimeout and the writes around it.
	lease = time.Minute
	// batch is how many due checks one run reads.
	batch = 100
	// reserve is the time of a run that must be left to start a check.
	reserve = ProbeTimeout + 2*time.Second
)

// The protocol's numbers.
const (
	// MaxChecks is how many checks of an outage may fail, by default, before checks end. The next
	// delivery that fails begins them again.
	MaxChecks = 5
	// Concurrency is how many servers are checked at once, by default.
	Concurrency = 3
	// ProbeTimeout is how long a server has to answer a check.
	ProbeTimeout = 8 * time.Second

	firstDelay = 5 * time.Minute
	delayStep  = 10 * time.Minute
)

// CheckDelay is the wait before a check, by its number from 0.
func CheckDelay(attempt int) time.Duration {
	return firstDelay + time.Duration(attempt)*delayStep
}

// Check is one scheduled check of a server.
type Check struct {
	ServerURL string    `json:"serverUrl"`
	Attempt   int       `json:"attempt"`
	DueAt     time.Time `json:"-"`
	// Version fences changes; the storage sets it.
	Version string `json:"-"`
}

// ID is the same for every schedule of the same check.
func (c Check) ID() string {
	sum := sha256.Sum256([]byte(c.ServerURL))
	return "health-check_" + hex.EncodeToString(sum[:])[:16] + "_" + strconv.Itoa(c.Attempt)
}

// ErrTaken says that another run has taken or finished a check.
var ErrTaken = errors.New("check was taken by another run")

// Schedule is what checks need of their storage.
type Schedule interface {
	// ScheduleCheck adds a check that is due at DueAt. If one of the same id waits already, it
	// changes nothing and scheduled is false.
	ScheduleCheck(ctx context.Context, c Check) (scheduled bool, err error)
	// HastenCheck makes the check of c's id due at DueAt at the latest, and adds it if there is none.
	HastenCheck(ctx context.Context, c Check) error
	// DueChecks returns checks due at or before now, earliest first.
	DueChecks(ctx context.Context, now time.Time, limit int) ([]Check, error)
	// PostponeCheck makes c due at another time and returns it with its new version, or ErrTaken
	// if it has changed.
	PostponeCheck(ctx context.Context, c Check, at time.Time) (Check, error)
	// FinishCheck removes c, or returns ErrTaken.
	FinishCheck(ctx context.Context, c Check) error
}

// MarkUnhealthy records that a server could not be reached, and schedules its first check. Servers
// that are not registered are ignored.
func (p *Prober) MarkUnhealthy(ctx context.Context, url string, reason Reason) error {
	now := p.Now()
	err := p.Registry.MarkUnhealthy(ctx, url, reason, now)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark %s unhealthy: %w", url, err)
	}
	p.Log.WarnContext(ctx, "sipher server is unhealthy", "server", url, "reason", reason)
	return p.schedule(ctx, url, 0, now)
}

// MarkHealthy records that a server answered.
func (p *Prober) MarkHealthy(ctx context.Context, url string) error {
	if err := p.Registry.MarkHealthy(ctx, url, p.Now()); err != nil {
		return fmt.Errorf("mark %s healthy: %w", url, err)
	}
	p.Log.InfoContext(ctx, "sipher server is healthy", "server", url)
	return nil
}

// Answered records that a server answered a delivery with 2xx. An unhealthy server gets a check, as one
// answer is no proof of health. If the policy forbids direct checks, it is healthy at once.
func (p *Prober) Answered(ctx context.Context, s Server) error {
	if s.IsHealthy {
		return nil
	}
	if !p.Policies.For(s.Reason).DirectHealthCheckable {
		return p.MarkHealthy(ctx, s.URL)
	}
	return p.schedule(ctx, s.URL, 0, p.Now())
}

// Registered records that s registered again: the next check of an unhealthy server is due now. By the
// protocol the registration itself changes no health.
func (p *Prober) Registered(ctx context.Context, s Server) error {
	if s.IsHealthy || !p.Policies.For(s.Reason).DirectHealthCheckable {
		return nil
	}
	c := Check{ServerURL: s.URL, Attempt: s.Attempts, DueAt: p.Now()}
	if err := p.Schedule.HastenCheck(ctx, c); err != nil {
		return fmt.Errorf("bring %s forward: %w", c.ID(), err)
	}
	return nil
}

func (p *Prober) schedule(ctx context.Context, url string, attempt int, now time.Time) error {
	c := Check{ServerURL: url, Attempt: attempt, DueAt: now.Add(CheckDelay(attempt))}
	if _, err := p.Schedule.ScheduleCheck(ctx, c); err != nil {
		return fmt.Errorf("schedule %s: %w", c.ID(), err)
	}
	return nil
}

// Check runs the checks that are due, until the time of ctx runs short. Runs may overlap. The error
// joins the faults on our own side.
func (p *Prober) Check(ctx context.Context) error {
	due, err := p.Schedule.DueChecks(ctx, p.Now(), batch)
	if err != nil {
		return fmt.Errorf("find due sipher checks: %w", err)
	}
	errs := make([]error, len(due))
	var group errgroup.Group
	group.SetLimit(max(p.Concurrency, 1))
	for i, c := range due {
		group.Go(func() error {
			if short(ctx) {
				return nil
			}
			if err := p.take(ctx, c); err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.ID(), err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	return errors.Join(errs...)
}

func short(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(deadline) < reserve
}

// take runs one check, unless another run has it.
func (p *Prober) take(ctx context.Context, c Check) error {
	c, err := p.Schedule.PostponeCheck(ctx, c, p.Now().Add(lease))
	if err != nil {
		return ignoreTaken(err)
	}
	next, err := p.run(ctx, c)
	if err != nil {
		return err // the lease ends, and the check is run again
	}
	return p.conclude(ctx, c, next)
}

// conclude schedules the next check before it removes this one: a crash in between leaves one check
// too many, never none.
func (p *Prober) conclude(ctx context.Context, c Check, next *Check) error {
	if next != nil && next.ID() == c.ID() {
		_, err := p.Schedule.PostponeCheck(ctx, c, next.DueAt)
		return ignoreTaken(err)
	}
	if next != nil {
		if _, err := p.Schedule.ScheduleCheck(ctx, *next); err != nil {
			return err
		}
	}
	return ignoreTaken(p.Schedule.FinishCheck(ctx, c))
}

// ignoreTaken drops ErrTaken: the run that has taken the check finishes it.
func ignoreTaken(err error) error {
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}

// run asks the server, unless it must not be checked, and returns the check to schedule next.
func (p *Prober) run(ctx context.Context, c Check) (*Check, error) {
	log := p.Log.With("server", c.ServerURL, "check", c.ID())
	s, err := p.Registry.Server(ctx, c.ServerURL)
	switch {
	case errors.Is(err, ErrUnknown):
		log.DebugContext(ctx, "sipher check skipped: server is not registered")
		return nil, nil
	case err != nil:
		return nil, err
	case s.IsHealthy:
		log.DebugContext(ctx, "sipher check skipped: server is healthy")
		return nil, nil
	case !p.Policies.For(s.Reason).DirectHealthCheckable:
		log.DebugContext(ctx, "sipher check skipped: policy forbids direct checks", "reason", s.Reason)
		return nil, nil
	}
	err = p.Ask(ctx, c.ServerURL, ProbeTimeout)
	if err == nil {
		return nil, p.MarkHealthy(ctx, c.ServerURL)
	}
	if FaultOf(err).Stopped {
		return nil, err
	}
	return p.failed(ctx, c, log, err)
}

func (p *Prober) failed(ctx context.Context, c Check, log *slog.Logger, cause error) (*Check, error) {
	now := p.Now()
	n, err := p.Registry.CountCheck(ctx, c.ServerURL, p.Limit, now)
	switch {
	case errors.Is(err, ErrHealthy), errors.Is(err, ErrUnknown):
		return nil, nil
	case err != nil:
		return nil, err
	case n >= p.Limit:
		log.WarnContext(ctx, "sipher health checks exhausted", "failed", n, "error", cause)
		return nil, nil
	}
	log.InfoContext(ctx, "sipher check failed", "failed", n, "remaining", p.Limit-n, "error", cause)
	return &Check{ServerURL: c.ServerURL, Attempt: n, DueAt: now.Add(CheckDelay(n))}, nil
}

// Ask asks a server for its discovery document; nil means a 2xx answer.
func (p *Prober) Ask(ctx context.Context, url string, timeout time.Duration) error {
	_, err := document(ctx, p.HTTP, url, timeout)
	return err
}
