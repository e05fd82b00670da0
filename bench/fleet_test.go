package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/fediverse"
)

// mood is what a server does with a request whose signature is valid. It answers itself, and
// reports whether it answered 2xx. draw is between 0 and 1.
type mood func(w http.ResponseWriter, r *http.Request, draw float64) (took bool)

// server is one host of a fleet.
type server struct {
	kind string
	mood mood
	// up and down, if not 0, are how long it is there, and then is not.
	up, down time.Duration
}

// fleet is a number of servers on loopback addresses of their own, with users.
// User n is of server n modulo their number.
type fleet struct {
	*book
	t       testing.TB
	servers []server
	hosts   []string
	inbox   *fediverse.Inbox
	// every n-th signature is verified: that takes a processor longer than signing.
	every int
	// calm is closed when servers that vanish have to come back for good.
	calm chan struct{}
	done sync.WaitGroup
}

// base is where activities and users of the fleet have their ids.
const base = "https://social.example/activities/"

// newFleet starts servers. seed is that of the servers whose answers are random.
func newFleet(t testing.TB, seed uint64, every int, servers []server) *fleet {
	t.Helper()
	f := &fleet{book: newBook(), t: t, servers: servers, inbox: fediverse.NewInbox(fediverse.NewKeys().Public()), every: every, calm: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(f.done.Wait)
	t.Cleanup(stop)
	for n, s := range servers {
		l := e2e.Listen(t)
		f.hosts = append(f.hosts, l.Addr().String())
		h := f.handler(n, s.mood, rand.New(rand.NewPCG(seed, uint64(n))))
		f.done.Go(func() { f.live(ctx, s, l, h) })
	}
	return f
}

// inboxOf is the inbox of a user.
func (f *fleet) inboxOf(user int) string {
	return fmt.Sprintf("http://%s/users/%d", f.hosts[user%len(f.hosts)], user)
}

// kindOf is the kind of server that has a user.
func (f *fleet) kindOf(user int) string { return f.servers[user%len(f.servers)].kind }

// live serves at l until ctx ends, with the pauses that the server makes.
func (f *fleet) live(ctx context.Context, s server, l net.Listener, h http.Handler) {
	address := l.Addr().String()
	for {
		hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		served := make(chan struct{})
		go func() {
			defer close(served)
			if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				f.t.Errorf("server %s: %v", address, err)
			}
		}()
		f.stay(ctx, s)
		// Closing twice is no error.
		_, _ = hs.Close(), l.Close()
		<-served
		if ctx.Err() != nil || s.down == 0 {
			return
		}
		rest(ctx, s.down)
		var err error
		if l, err = net.Listen("tcp", address); err != nil {
			f.t.Errorf("server %s cannot come back: %v", address, err)
			return
		}
	}
}

// stay waits for as long as a server is there.
func (f *fleet) stay(ctx context.Context, s server) {
	if s.down == 0 {
		rest(ctx, s.up)
		return
	}
	select {
	case <-time.After(s.up):
	case <-ctx.Done():
	case <-f.calm:
		rest(ctx, 0)
	}
}

// rest waits for d, for ever if that is 0, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	var after <-chan time.Time
	if d > 0 {
		after = time.After(d)
	}
	select {
	case <-after:
	case <-ctx.Done():
	}
}

func (f *fleet) handler(host int, m mood, random *rand.Rand) http.Handler {
	var mu sync.Mutex
	count := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.NotFound(w, r) // a check: the server is there
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender was killed
		}
		mu.Lock()
		draw := random.Float64()
		count++
		look := count%f.every == 0
		mu.Unlock()
		if look {
			if err := f.inbox.Verify(r, body); err != nil {
				f.refuse(err)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
		}
		d, caller, err := read(r.URL.Path, string(body))
		if err != nil {
			f.refuse(err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		took := false
		defer func() {
			if !took { // also where the mood breaks the connection
				f.fail(d, w.Header().Get("Retry-After") != "")
			}
		}()
		if took = m(w, r, draw); took {
			f.take(d, host, caller, time.Now())
			w.WriteHeader(http.StatusAccepted)
		}
	})
}

// activity is the body of the activity of a number. caller is the one whose
// order it keeps, or negative.
func activity(n, caller int) string {
	return fmt.Sprintf(`{"@context":"https://www.w3.org/ns/activitystreams","id":"%s%d/%d","type":"Create",`+
		`"actor":"https://mastodon.example/users/Zoe","object":{"type":"Note","content":"<p>%s</p>"}}`, base, n, caller, strings.Repeat("Übrigens &amp; so. ", 20))
}

var errNotOurs = errors.New("not a delivery of this test")

// read says which delivery a request is.
func read(path, body string) (d delivery, caller int, err error) {
	_, id, ok := strings.Cut(body, `"id":"`+base)
	id, _, _ = strings.Cut(id, `"`)
	n, c, _ := strings.Cut(id, "/")
	var e1, e2, e3 error
	d.activity, e1 = strconv.Atoi(n)
	caller, e2 = strconv.Atoi(c)
	d.user, e3 = strconv.Atoi(strings.TrimPrefix(path, "/users/"))
	if !ok || e1 != nil || e2 != nil || e3 != nil {
		return d, caller, fmt.Errorf("%w: %s %.200q", errNotOurs, path, body)
	}
	return d, caller, nil
}

// accept takes everything.
func accept(http.ResponseWriter, *http.Request, float64) bool { return true }

// slow takes everything after a while.
func slow(d time.Duration) mood {
	return func(_ http.ResponseWriter, r *http.Request, _ float64) bool {
		rest(r.Context(), d)
		return r.Context().Err() == nil
	}
}

// refuse answers all with a status.
func refuse(status int) mood {
	return func(w http.ResponseWriter, _ *http.Request, _ float64) bool {
		w.WriteHeader(status)
		return false
	}
}

// stumble answers some with 500, and breaks the connection of others.
func stumble(w http.ResponseWriter, _ *http.Request, draw float64) bool {
	switch {
	case draw < 0.1:
		w.WriteHeader(http.StatusInternalServerError)
		return false
	case draw < 0.15:
		panic(http.ErrAbortHandler)
	}
	return true
}

// throttle takes some requests in a period and answers the rest of it with 429.
func throttle(most int, period time.Duration) mood {
	var mu sync.Mutex
	var begin time.Time
	n := 0
	return func(w http.ResponseWriter, _ *http.Request, _ float64) bool {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(begin) > period {
			begin, n = now, 0
		}
		if n++; n > most {
			w.Header().Set("Retry-After", strconv.Itoa(int(max(time.Second, period-time.Since(begin)).Seconds()+0.999)))
			w.WriteHeader(http.StatusTooManyRequests)
			return false
		}
		return true
	}
}

// hang lets some wait a little, and a few until they give up.
func hang(_ http.ResponseWriter, r *http.Request, draw float64) bool {
	switch {
	case draw < 0.01:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case draw < 0.2:
		rest(r.Context(), 200*time.Millisecond)
	}
	return r.Context().Err() == nil
}
