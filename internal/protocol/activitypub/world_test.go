package activitypub_test

import (
	"context"
	"sync"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/httpsign"
)

// sender makes single attempts.
type sender struct{ *activitypub.Protocol }

func (s sender) Attempt(ctx context.Context, a activity.Activity, t activity.Target) outcome.Outcome {
	return s.Prepare(ctx, a)(ctx, t, 1)
}

// forms is a FormMemory for as long as a test runs. It believes at once, and for the whole host.
type forms struct {
	mu    sync.Mutex
	hosts map[string]remembered
	once  bool
}

type remembered struct {
	form  string
	until time.Time
}

func newForms() *forms { return &forms{hosts: map[string]remembered{}} }

func (f *forms) Form(t activity.Target) (form string, once bool) {
	return string(f.knows(t.Host())), f.once
}

func (f *forms) TookForm(t activity.Target, refused, form string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if refused != "" {
		f.hosts[t.Host()] = remembered{form, until}
	}
}

func (f *forms) knows(host string) httpsign.Form {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.hosts[host]; time.Now().Before(r.until) {
		return httpsign.Form(r.form)
	}
	return ""
}
