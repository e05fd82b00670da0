package activitypub

import (
	"sync"
	"time"

	"fedpost/internal/protocol/httpsign"
)

// Forms is a FormMemory in this process, for as long as it runs. It is bounded,
// since hosts are chosen by strangers.
type Forms struct {
	now   func() time.Time
	limit int

	mu    sync.Mutex
	hosts map[string]remembered
}

type remembered struct {
	form  httpsign.Form
	until time.Time
}

// NewForms returns a memory of at most limit hosts.
func NewForms(limit int, now func() time.Time) *Forms {
	return &Forms{now: now, limit: limit, hosts: make(map[string]remembered)}
}

// Form implements FormMemory.
func (f *Forms) Form(host string) httpsign.Form {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.hosts[host]
	if !ok {
		return ""
	}
	if !f.now().Before(r.until) {
		delete(f.hosts, host)
		return ""
	}
	return r.form
}

// Remember implements FormMemory. When full, it forgets any other host, which
// costs that one request more.
func (f *Forms) Remember(host string, form httpsign.Form, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.hosts[host]; !known && len(f.hosts) >= f.limit {
		for other := range f.hosts {
			delete(f.hosts, other)
			break
		}
	}
	f.hosts[host] = remembered{form, until}
}
