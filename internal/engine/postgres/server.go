package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connections is the size of a process's pool, unless the URL has pool_max_conns: those
	// of writers and readers, and some for transactions that are not shared.
	connections = writers + readers + 4
	// connectTime bounds one attempt to connect, unless the URL has connect_timeout.
	connectTime = 5 * time.Second
	// idleInTransaction ends the transaction of a process that hangs in it, in milliseconds,
	// so that it does not hold its locks. No transaction of the engine waits for anything but
	// the server.
	idleInTransaction = "30000"
	// silence is how long a connection whose process does not read stays, in milliseconds. Its transaction
	// would keep VACUUM from removing the dead rows of all tables: one that waits for its answer to be
	// read, and one that delivers notifications.
	silence = "30000"
	// oldest is the first version that the engine runs on. It needs pg_xact_status, which 13 has,
	// too; but support of 13 ended in November 2025. https://www.postgresql.org/support/versioning/
	oldest = 140000
)

var ErrServer = errors.New("this server cannot be used")

// poolConfig reads a URL or a list of keywords and values, as psql takes them.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING
func poolConfig(url string) (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err // pgx leaves the password out
	}
	if !strings.Contains(url, "pool_max_conns") {
		c.MaxConns = connections
	}
	c.ConnConfig.ConnectTimeout = cmp.Or(c.ConnConfig.ConnectTimeout, connectTime)
	// Keep-alives notice a server that vanishes without closing its connections, as in a failover.
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	c.ConnConfig.DialFunc = d.DialContext
	c.PingTimeout = connectTime
	params := c.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = "fedpost"
	}
	params[idleSetting], params["tcp_user_timeout"] = idleInTransaction, silence
	return c, nil
}

const idleSetting = "idle_in_transaction_session_timeout"

// connect opens a pool and one connection. PgBouncer refuses parameters that it does not
// know; the pool goes without them then, and each transaction sets the first for itself.
func connect(ctx context.Context, c *pgxpool.Config) (*pgxpool.Pool, error) {
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	if err = pool.Ping(ctx); err == nil {
		return pool, nil
	}
	pool.Close()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == protocolViolation && c.ConnConfig.RuntimeParams[idleSetting] != "" {
		delete(c.ConnConfig.RuntimeParams, idleSetting)
		delete(c.ConnConfig.RuntimeParams, "tcp_user_timeout")
		return connect(ctx, c)
	}
	return nil, err
}

// checkServer returns an error if the engine cannot run on the server, and warns of settings
// with which an accepted activity can be lost.
func checkServer(ctx context.Context, c *pgx.Conn, log *slog.Logger) error {
	var version, number, synchronous string
	if err := c.QueryRow(ctx, `SELECT version(), current_setting('server_version_num', true)`).Scan(&version, &number); err != nil {
		return fmt.Errorf("ask for its version: %w", err)
	}
	for _, other := range []string{"CockroachDB", "YugabyteDB", "YB-"} {
		if strings.Contains(version, other) {
			return fmt.Errorf("%w: it is %s, which lacks what the queues need (rows locked with SKIP LOCKED at a bounded cost, LISTEN, the state of a past transaction); use PostgreSQL 14 or later", ErrServer, strings.TrimSuffix(other, "-"))
		}
	}
	if n, err := strconv.Atoi(number); err != nil || n < oldest {
		return fmt.Errorf("%w: it is %.80q; use PostgreSQL 14 or later", ErrServer, version)
	}
	var standby bool
	if err := c.QueryRow(ctx, `SELECT pg_is_in_recovery(), current_setting('synchronous_commit')`).Scan(&standby, &synchronous); err != nil {
		return fmt.Errorf("ask for its state: %w", err)
	}
	if standby {
		return fmt.Errorf("%w: it is a standby, which takes no writes; name the primary, or both with target_session_attrs=read-write", ErrServer)
	}
	if synchronous == "off" {
		log.WarnContext(ctx, "synchronous_commit is off: what was accepted shortly before a crash of PostgreSQL is lost; set it to on for this database or role")
	}
	return nil
}

// Name names the server and the database, without a password, for people.
func (e *Engine) Name() string {
	c := e.pool.Config().ConnConfig
	at := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") {
		at = c.Host
	}
	return fmt.Sprintf("database %s at %s, schema %s", c.Database, at, e.schema)
}
