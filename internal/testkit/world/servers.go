package world

import (
	"context"
	"strconv"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/testkit/faults"
)

// Servers are the servers of strangers. Those without a script accept.
type Servers struct {
	mu      sync.Mutex
	now     func() time.Time
	scripts map[string]Script // by inbox or host
	got     []Request
	plan    *faults.Plan
}

// Script answers a request to an inbox; n counts requests of this activity to
// it, from 1.
type Script func(r Request, n int) outcome.Outcome

// Request is one that reached an inbox.
type Request struct {
	Activity activity.Activity
	Inbox    string
	Attempt  int
	At       time.Time
	Accepted bool
}

func newServers() *Servers { return &Servers{scripts: map[string]Script{}} }

// Script sets how an inbox or a whole host answers; nil makes it accept.
func (s *Servers) Script(where string, script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[where] = script
}

// SenderFunc makes a protocol.Sender of a function.
type SenderFunc func(ctx context.Context, a activity.Activity) protocol.Attempt

// Prepare implements protocol.Sender.
func (f SenderFunc) Prepare(ctx context.Context, a activity.Activity) protocol.Attempt {
	return f(ctx, a)
}

// Prepare implements protocol.Sender.
func (s *Servers) Prepare(_ context.Context, a activity.Activity) protocol.Attempt {
	return func(_ context.Context, t activity.Target, n int) outcome.Outcome {
		return s.call(Request{Activity: a, Inbox: t.Inbox, Attempt: n, At: s.now()}, s.answer)
	}
}

// Spare keeps the plan from breaking requests.
func (s *Servers) Spare() { s.plan = nil }

// call lets the plan break a request.
func (s *Servers) call(r Request, answer func(Request) outcome.Outcome) outcome.Outcome {
	if s.plan == nil {
		return answer(r)
	}
	var o outcome.Outcome
	err := s.plan.Do("http", "POST", func() error {
		o = answer(r)
		return nil
	})
	if err != nil {
		return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnReset, Err: err.Error()}
	}
	return o
}

func (s *Servers) answer(r Request) outcome.Outcome {
	s.mu.Lock()
	script := s.scripts[r.Inbox]
	if script == nil {
		script = s.scripts[activity.HostOf(r.Inbox)]
	}
	n, before := 1, s.got
	if script == nil {
		before = nil // nobody asks
	}
	for _, g := range before {
		if g.Activity.ID == r.Activity.ID && g.Inbox == r.Inbox {
			n++
		}
	}
	s.mu.Unlock()
	o := outcome.Outcome{Class: outcome.Delivered, Status: 202}
	if script != nil {
		o = script(r, n)
	}
	if o.Try != outcome.Made {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Accepted = o.Class == outcome.Delivered
	s.got = append(s.got, r)
	return o
}

// Probe answers a health check of a host as its script would answer a delivery.
func (s *Servers) Probe(_ context.Context, host string) outcome.Outcome {
	return s.call(Request{Inbox: "probe:" + host, At: s.now()}, func(r Request) outcome.Outcome {
		s.mu.Lock()
		script := s.scripts[host]
		s.mu.Unlock()
		if script == nil {
			return outcome.Outcome{Class: outcome.Delivered, Status: 200}
		}
		return script(r, 1)
	})
}

// Got lists the requests so far.
func (s *Servers) Got() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.got...)
}

// Accepted counts accepted requests by activity and inbox.
func (s *Servers) Accepted() map[activity.ID]map[string]int {
	all := map[activity.ID]map[string]int{}
	for _, r := range s.Got() {
		if !r.Accepted {
			continue
		}
		if all[r.Activity.ID] == nil {
			all[r.Activity.ID] = map[string]int{}
		}
		all[r.Activity.ID][r.Inbox]++
	}
	return all
}

// Answers with a status, as ActivityPub reads it.
func Answers(status int) Script {
	return func(Request, int) outcome.Outcome { return Status(status) }
}

// Status is the outcome of a status.
func Status(status int) outcome.Outcome {
	class, _ := activitypub.OfStatus(status, false, nil, Start)
	o := outcome.Outcome{Class: class, Status: status}
	if class != outcome.Delivered {
		o.Err = "answered " + strconv.Itoa(status)
	}
	return o
}

// Down is the outcome of a connection that was refused.
func Down(Request, int) outcome.Outcome {
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.ConnRefused, Err: "connection refused"}
}

// Hang is the outcome of an attempt that gets no answer until the engine ends it.
func Hang(ctx context.Context) outcome.Outcome {
	<-ctx.Done()
	return outcome.Outcome{Class: outcome.Retry, Reason: outcome.Timeout, Err: "no answer in time"}
}

// Then answers the first n requests as first does and all later ones as rest does. A nil
// script accepts.
func Then(n int, first, rest Script) Script {
	return func(r Request, i int) outcome.Outcome {
		if i <= n {
			return first(r, i)
		}
		if rest == nil {
			return Status(202)
		}
		return rest(r, i)
	}
}

// OneByOne calls a script for one request at a time, as a script with state needs it.
func OneByOne(script Script) Script {
	var mu sync.Mutex
	return func(r Request, n int) outcome.Outcome {
		mu.Lock()
		defer mu.Unlock()
		return script(r, n)
	}
}
