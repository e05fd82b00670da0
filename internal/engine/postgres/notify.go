package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fedpost/internal/engine/queue"
)

const (
	// notifyEvery is how often a process notifies others, at most. NOTIFY takes a lock of the
	// whole server until its transaction has ended, so no transaction that writes has one.
	notifyEvery = 10 * time.Millisecond
	// pollEvery is how often a queue is read although nobody notifies: processes notify others
	// of messages that are visible, not of delays and changed visibility timeouts, nor of
	// anything before they die.
	pollEvery = time.Second
	// heartbeat is how often a process notifies itself, to find out whether notifications
	// still come, and echoTime how long one may take.
	heartbeat = 30 * time.Second
	echoTime  = 5 * time.Second
	// listenAgain is how long after a failure it takes to listen again.
	listenAgain = 2 * time.Second
)

// notifier notifies other processes of messages that no receiver of this process waits for, and
// wakes receivers of this process for messages of others (NOTIFY and LISTEN).
type notifier struct {
	e       *Engine
	config  *pgx.ConnConfig
	channel string
	name    string // of this process

	mu      sync.Mutex
	pending []queue.Name
	some    chan struct{}

	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newNotifier(e *Engine, config *pgx.ConnConfig) *notifier {
	ctx, cancel := context.WithCancel(context.Background())
	n := &notifier{e: e, config: config, channel: e.schema + "_queues", name: rand.Text()[:8], some: make(chan struct{}, 1), cancel: cancel}
	n.done.Go(func() { n.send(ctx) })
	n.done.Go(func() { n.listen(ctx) })
	return n
}

func (n *notifier) stop() {
	n.cancel()
	n.done.Wait()
}

// wakeReceivers wakes receivers for messages that arrived: of this process first, then of others.
func (e *Engine) wakeReceivers(name queue.Name, messages int) {
	if e.wake.Wake(name, messages) > 0 {
		e.notifier.add(name)
	}
}

func (n *notifier) add(name queue.Name) {
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

func (n *notifier) send(ctx context.Context) {
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
			// If this fails, the others find the messages when they poll.
			if err := n.notify(ctx, string(name)); err != nil && ctx.Err() == nil {
				n.e.log.DebugContext(ctx, "other processes could not be notified of messages", "queue", name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(notifyEvery):
		}
	}
}

func (n *notifier) notify(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := n.e.pool.Exec(ctx, `SELECT pg_notify($1, $2)`, n.channel, what+" "+n.name)
	return err
}

// echo is the notification of a process to itself.
const echo = "echo"

// listen listens until ctx ends.
func (n *notifier) listen(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		err := n.listenOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if !said {
			n.e.log.WarnContext(ctx, fmt.Sprintf("no notifications of new messages from the database (PgBouncer in transaction mode passes none): they are found within %s meanwhile", pollEvery), "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// listenOnce listens on a connection of its own until that breaks or no echo comes.
func (n *notifier) listenOnce(ctx context.Context) error {
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
	for _, statement := range []string{`SET tcp_user_timeout = ` + silence, `LISTEN ` + pgx.Identifier{n.channel}.Sanitize()} {
		if _, err := conn.Exec(connected, statement); err != nil {
			return err
		}
	}
	for {
		if err := n.notify(ctx, echo); err != nil {
			return err
		}
		if err := n.until(ctx, conn, echoTime, true); err != nil {
			return fmt.Errorf("no notification after LISTEN: %w", err)
		}
		if err := n.until(ctx, conn, heartbeat, false); err != nil && !pgconn.Timeout(err) {
			return err
		}
	}
}

// until wakes receivers for notifications of others, for a time, or until the echo if self is set.
func (n *notifier) until(ctx context.Context, conn *pgx.Conn, d time.Duration, self bool) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		got, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		what, from, _ := strings.Cut(got.Payload, " ")
		switch {
		case from != n.name && what != echo:
			n.e.wake.Wake(queue.Name(what), 1)
		case from == n.name && what == echo && self:
			return nil
		}
	}
}
