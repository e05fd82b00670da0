package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fedpost/internal/engine/queue"
)

const (
	// told is how often a process tells others of messages on its queues, at most. NOTIFY
	// takes a lock of the whole server until its transaction has ended, so no transaction that
	// writes has one.
	told = 10 * time.Millisecond
	// patient is how long a queue is not looked at where others tell of its messages: what
	// they do not tell is that a message is hidden for a shorter time than it was, and what
	// they could not tell because they died.
	patient = 5 * time.Second
	// impatient is how long a queue is not looked at where nobody can tell.
	impatient = time.Second
	// heartbeat is how often a process tells itself something, to notice that nothing comes
	// any more, and echoTime how long that may take.
	heartbeat = 30 * time.Second
	echoTime  = 5 * time.Second
	// listenAgain is how long after a failure it takes to listen again.
	listenAgain = 2 * time.Second
)

// news tells the other processes of messages that no receiver of this process waits for, and
// wakes receivers for those of other processes (NOTIFY and LISTEN).
type news struct {
	e       *Engine
	config  *pgx.ConnConfig
	channel string
	name    string // of this process
	hears   atomic.Bool

	mu      sync.Mutex
	pending []queue.Name
	some    chan struct{}

	cancel context.CancelFunc
	done   sync.WaitGroup
}

func listen(e *Engine, config *pgx.ConnConfig) *news {
	ctx, cancel := context.WithCancel(context.Background())
	n := &news{e: e, config: config, channel: e.schema + "_queues", name: rand.Text()[:8], some: make(chan struct{}, 1), cancel: cancel}
	n.done.Go(func() { n.tell(ctx) })
	n.done.Go(func() { n.listen(ctx) })
	return n
}

func (n *news) stop() {
	n.cancel()
	n.done.Wait()
}

// patience is how long a queue need not be looked at.
func (n *news) patience() time.Duration {
	if n.hears.Load() {
		return patient
	}
	return impatient
}

// ring wakes receivers for messages that arrived, of other processes if this one has too few
// that wait.
func (e *Engine) ring(name queue.Name, messages int) {
	if e.wake.Ring(name, messages) > 0 {
		e.news.about(name)
	}
}

func (n *news) about(name queue.Name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.pending, name) {
		n.pending = append(n.pending, name)
	}
	select {
	case n.some <- struct{}{}:
	default:
	}
}

// tell notifies the others, as long as ctx is.
func (n *news) tell(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.some:
		}
		n.mu.Lock()
		names := n.pending
		n.pending = nil
		n.mu.Unlock()
		for _, name := range names {
			// What cannot be told is found by those who look after patience has ended.
			if err := n.notify(ctx, string(name)); err != nil && ctx.Err() == nil {
				n.e.log.DebugContext(ctx, "other processes were not told of messages", "queue", name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(told):
		}
	}
}

func (n *news) notify(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := n.e.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, n.channel, what+" "+n.name)
	return err
}

// echo is what a process tells itself.
const echo = "echo"

// listen hears the others, as long as ctx is.
func (n *news) listen(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		err := n.hear(ctx)
		n.hears.Store(false)
		if ctx.Err() != nil {
			return
		}
		if !said {
			n.e.log.WarnContext(ctx, fmt.Sprintf("the database does not tell of new messages (behind PgBouncer in transaction mode it cannot): queues are read every %s meanwhile", impatient), "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// hear listens on a connection of its own until that breaks or brings nothing.
func (n *news) hear(ctx context.Context) error {
	connected, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	conn, err := pgx.ConnectConfig(connected, n.config)
	if err != nil {
		return err
	}
	defer func() {
		closed, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closed)
	}()
	if _, err := conn.Exec(connected, `LISTEN `+pgx.Identifier{n.channel}.Sanitize()); err != nil {
		return err
	}
	for {
		if err := n.notify(ctx, echo); err != nil {
			return err
		}
		if err := n.until(ctx, conn, echoTime, true); err != nil {
			return fmt.Errorf("nothing comes of LISTEN: %w", err)
		}
		if !n.hears.Swap(true) {
			// What was told while nobody listened is looked for.
			for _, name := range queue.Names {
				n.e.wake.Ring(name, 1)
			}
		}
		if err := n.until(ctx, conn, heartbeat, false); err != nil && !pgconn.Timeout(err) {
			return err
		}
	}
}

// until hears the others for a time, or until this process hears itself if that is wanted.
func (n *news) until(ctx context.Context, conn *pgx.Conn, d time.Duration, self bool) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		heard, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		what, from, _ := strings.Cut(heard.Payload, " ")
		switch {
		case from != n.name && what != echo:
			n.e.wake.Ring(queue.Name(what), 1)
		case from == n.name && what == echo && self:
			return nil
		}
	}
}
