package config

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
)

// Enqueue is what functions/enqueue reads.
type Enqueue struct {
	Queueing       Queueing
	Queues         Queues
	Table          Table
	Sealing        Sealing
	Deduplication  Deduplication
	Limits         Limits
	Events         Events
	Priorities     Priorities
	Retry          Retry
	Circuit        Circuit
	Outbound       Outbound
	SipherIdentity SipherIdentity
	Sipher         Sipher
	Metrics        Metrics
	Tracing        Tracing
	Log            Log
}

// Deliver is what functions/deliver reads.
type Deliver struct {
	Queueing       Queueing
	Queues         Queues
	Table          Table
	Sealing        Sealing
	Limits         Limits
	Events         Events
	Retry          Retry
	Circuit        Circuit
	Outbound       Outbound
	Concurrency    Concurrency
	SipherIdentity SipherIdentity
	SipherSecrets  SipherSecrets
	SipherSecret   SipherSecret
	Sipher         Sipher
	Metrics        Metrics
	Tracing        Tracing
	Log            Log
}

// HealthCheck is what functions/healthcheck reads.
type HealthCheck struct {
	Queueing    Queueing
	Queues      Queues
	Table       Table
	Retry       Retry
	Circuit     Circuit
	Outbound    Outbound
	Events      Events
	EventBus    EventBus
	Concurrency Concurrency
	Sipher      Sipher
	Metrics     Metrics
	Log         Log
}

// Local is what `fedpost up` reads.
type Local struct {
	Queueing       Queueing
	Database       Database
	Access         Access
	Signing        Signing
	Deduplication  Deduplication
	Limits         Limits
	Events         Events
	Priorities     Priorities
	Retry          Retry
	Circuit        Circuit
	Outbound       Outbound
	Concurrency    Concurrency
	SipherIdentity SipherIdentity
	SipherSecrets  SipherSecrets
	Sipher         Sipher
	Tracing        Tracing
	TracingHeaders TracingHeaders
}

// Enqueue is the settings of functions/enqueue in `fedpost up`, without those of AWS.
func (l Local) Enqueue() Enqueue { return part[Enqueue](l) }

// Deliver is to functions/deliver what Enqueue is to functions/enqueue.
func (l Local) Deliver() Deliver { return part[Deliver](l) }

// HealthCheck is to functions/healthcheck what Enqueue is to functions/enqueue.
func (l Local) HealthCheck() HealthCheck { return part[HealthCheck](l) }

// part is the settings of a program as far as l has them: concerns have the same names everywhere.
func part[T any](l Local) (program T) {
	to, from := reflect.ValueOf(&program).Elem(), reflect.ValueOf(l)
	for i := range to.NumField() {
		if concern := from.FieldByName(to.Type().Field(i).Name); concern.IsValid() {
			to.Field(i).Set(concern)
		}
	}
	return program
}

// AWS is what `fedpost up` reads in addition to Local on AWS.
type AWS struct {
	Queues  Queues
	Table   Table
	Sealing Sealing
}

// Access says who may use the API of `fedpost up`. On AWS, IAM decides.
type Access struct {
	Token string `env:"FEDPOST_API_TOKEN" secret:"true" help:"a secret of at least 16 characters that clients send as Bearer token; it allows everything, and is needed to listen on anything but loopback"`
	Send  string `env:"FEDPOST_SEND_TOKEN" secret:"true" help:"a send-only token: the routes below /v1/activities; needs FEDPOST_API_TOKEN"`
	App   string `env:"FEDPOST_APP_TOKEN" secret:"true" help:"a token for applications: the routes below /v1/activities and /v1/keys, and GET /v1/events; needs FEDPOST_API_TOKEN"`
	Read  string `env:"FEDPOST_READ_TOKEN" secret:"true" help:"a read-only token for everything, as for Prometheus; needs FEDPOST_API_TOKEN"`

	RequestsPerMinute int `env:"FEDPOST_REQUESTS_PER_MINUTE" envDefault:"0" min:"0" max:"1000000" help:"requests a minute of each token, and of all callers without one together; beyond that the answer is 429; /healthz and /discover do not count: up to 1000000, 0 for no limit"`
}

func (a *Access) check(r *report) {
	const least = 16
	held := map[string]string{}
	for _, t := range []struct{ name, token string }{{"FEDPOST_API_TOKEN", a.Token}, {"FEDPOST_SEND_TOKEN", a.Send}, {"FEDPOST_APP_TOKEN", a.App}, {"FEDPOST_READ_TOKEN", a.Read}} {
		switch {
		case t.token == "":
			continue
		case len(t.token) < least:
			r.add(t.name, "has fewer than 16 characters, so it can be guessed", "set it to a random one: openssl rand -hex 32")
		case strings.TrimSpace(t.token) != t.token || strings.ContainsFunc(t.token, func(c rune) bool { return c < 0x20 || c > 0x7e }):
			r.add(t.name, "begins or ends with a space, or has a character that is not printable ASCII, which the clients refuse", "set it to a random one: openssl rand -hex 32")
		case a.Token == "":
			r.add(t.name, "is set without FEDPOST_API_TOKEN, so nobody could operate this server", "set FEDPOST_API_TOKEN, too")
		case held[t.token] != "":
			r.add(t.name, "is the same as "+held[t.token]+", so their roles cannot be distinguished", "set each to a random one: openssl rand -hex 32")
		}
		held[t.token] = t.name
	}
}

// Signing says what `fedpost up` signs with.
type Signing struct {
	Library string `env:"SIGNING_LIBRARY" envDefault:"auto" help:"auto: RSA signatures by OpenSSL 3 where the machine has it; go: always by Go's library"`
}

func (s *Signing) check(r *report) { r.oneOf("SIGNING_LIBRARY", s.Library, "auto", "go") }

// Metrics says how events are counted on AWS.
type Metrics struct {
	Namespace string `env:"METRICS_NAMESPACE" envDefault:"fedpost" help:"the CloudWatch namespace of metrics, a different one for each installation: up to 255 letters, digits, - and _"`
}

func (m *Metrics) check(r *report) { r.token("METRICS_NAMESPACE", m.Namespace, 255) }

// Log says what the functions log on AWS. `fedpost` has --log-level.
type Log struct {
	Level Level `env:"LOG_LEVEL" envDefault:"WARN" help:"the lowest level of log lines: DEBUG, INFO (also each delivery), WARN or ERROR; metrics are printed at each level"`
}

// Level is a level of log lines.
type Level slog.Level

// UnmarshalText implements encoding.TextUnmarshaler. It takes the four names only.
func (l *Level) UnmarshalText(b []byte) error {
	for _, known := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if string(b) == known.String() {
			*l = Level(known)
			return nil
		}
	}
	return errors.New("none of DEBUG, INFO, WARN and ERROR")
}
