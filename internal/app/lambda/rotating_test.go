package lambda

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/app/lambda/sqsevent"
	"fedpost/internal/engine/queue"
)

// built is an engine that records the secret that it was built from.
type built struct{ secret string }

func (built) Handle(context.Context, queue.Name, []queue.Received) ([]string, error) { return nil, nil }

// vault is a secret that can be rotated or become unreadable.
type vault struct {
	mu            sync.Mutex
	text, version string
	err           error
	reads         int
	clock         time.Time
	log           strings.Builder
}

func newRotating(v *vault) *rotating {
	v.clock = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &rotating{
		read: func(ctx context.Context) (map[string]string, string, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.reads++
			if _, ok := ctx.Deadline(); !ok {
				return nil, "", errors.New("a look at the secret has no time-out")
			}
			return map[string]string{"text": v.text}, v.version, v.err
		},
		build: func(secret map[string]string) (sqsevent.Worker, error) {
			if secret["text"] == "bad" {
				return nil, errors.New("FEDERATION_PRIVATE_KEY cannot be used")
			}
			return built{secret["text"]}, nil
		},
		log: slog.New(slog.NewTextHandler(&v.log, nil)), now: func() time.Time { return v.clock },
	}
}

func TestARotatedSecretIsUsedWithinTenMinutes(t *testing.T) {
	v := &vault{text: "first", version: "1"}
	r := newRotating(v)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	is := func(want string, reads int) {
		t.Helper()
		if got := r.current(t.Context()); got != (built{want}) || v.reads != reads {
			t.Errorf("the engine is %v after %d reads, want %s after %d", got, v.reads, want, reads)
		}
	}
	is("first", 1)
	v.text, v.version = "second", "2"
	v.clock = v.clock.Add(secretEvery - time.Second)
	is("first", 1)
	v.clock = v.clock.Add(time.Second)
	is("second", 2)
	is("second", 2)
	v.clock = v.clock.Add(secretEvery)
	is("second", 3) // no new version

	v.err = errors.New("connection refused")
	v.text, v.version = "third", "3"
	v.clock = v.clock.Add(secretEvery)
	is("second", 4)
	v.err, v.text = nil, "bad"
	v.clock = v.clock.Add(secretEvery)
	is("second", 5)
	v.text = "third"
	v.clock = v.clock.Add(secretEvery)
	is("third", 6)
	for _, said := range []string{"level=WARN", "connection refused", "level=ERROR", "FEDERATION_PRIVATE_KEY cannot be used", "version=3"} {
		if !strings.Contains(v.log.String(), said) {
			t.Errorf("the log does not say %q:\n%s", said, v.log.String())
		}
	}
}

func TestAStartWithoutTheSecretFails(t *testing.T) {
	for _, v := range []*vault{{err: errors.New("access denied")}, {text: "bad"}} {
		if err := newRotating(v).start(); err == nil {
			t.Errorf("%+v: started", v.text)
		}
	}
}

// Lambda may run several invocations in a process.
func TestInvocationsAtOnceLookAtTheSecretOnce(t *testing.T) {
	v := &vault{text: "first", version: "1"}
	r := newRotating(v)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	v.text, v.version = "second", "2"
	v.clock = v.clock.Add(secretEvery)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if r.current(t.Context()) == nil {
				t.Error("no engine")
			}
		})
	}
	all.Wait()
	if v.reads != 2 {
		t.Errorf("%d reads", v.reads)
	}
}
