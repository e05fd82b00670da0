package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Phase says what happens to deliveries to a server.
type Phase string

// The phases of a server.
const (
	PhaseHealthy    Phase = "healthy"    // deliveries go out
	PhaseUnhealthy  Phase = "unhealthy"  // they are parked until a check succeeds
	PhaseHalfOpen   Phase = "half-open"  // one of them at a time is on trial
	PhaseRecovering Phase = "recovering" // they are released, a growing number at a time
	PhasePaused     Phase = "paused"     // by an operator, or because the server asked for it
	PhaseExhausted  Phase = "exhausted"  // down for longer than deliveries are kept
	PhaseGone       Phase = "gone"       // it answered 410
	PhaseBlocked    Phase = "blocked"    // by an operator
)

// Server is the state of one server: a host of the fediverse, a single inbox of a host,
// or a Sipher server.
type Server struct {
	Name string `json:"server"`
	// Host is the host of a single inbox; KeyID the signing key, if the state is of the
	// deliveries that are signed with one key.
	Host     string    `json:"host,omitempty"`
	KeyID    string    `json:"keyId,omitempty"`
	Protocol string    `json:"protocol"`
	Phase    Phase     `json:"phase"`
	Since    time.Time `json:"since,omitzero"` // of this phase
	Until    time.Time `json:"until,omitzero"` // when a pause, or the phase gone, ends
	// Reason is the class of the last fault, and Why is it in words.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`

	DownSince   time.Time `json:"downSince,omitzero"` // start of the present outage
	Failures    int       `json:"failuresInARow,omitempty"`
	Window      *Window   `json:"window,omitempty"`
	Checks      int       `json:"failedChecks,omitempty"` // of the present outage
	NextCheckAt time.Time `json:"nextCheckAt,omitzero"`   // or next release
	// Parked is true if deliveries may be parked for the server.
	Parked bool `json:"parked,omitempty"`
	// Waiting is how many deliveries wait for the server, if the request has asked for it.
	Waiting *WaitingInAll `json:"waiting,omitempty"`

	SignatureForm string     `json:"signatureForm,omitempty"`
	RateLimit     *RateLimit `json:"rateLimit,omitempty"`

	// Keys are the pinned keys of a Sipher server. RefusedKeys are other keys that the
	// server has shown since.
	Keys        *SipherKeys  `json:"keys,omitempty"`
	RefusedKeys *RefusedKeys `json:"refusedKeys,omitempty"`
	LastSeen    time.Time    `json:"lastSeen,omitzero"`
}

// Inbox is the URL of a single inbox, without the digest of a signing key; empty for a host, and
// for a signing key at all inboxes of one.
func (s Server) Inbox() string {
	inbox, ok := strings.CutPrefix(s.Name, "inbox:")
	if !ok || strings.Contains(inbox, "#hostkey-") {
		return ""
	}
	inbox, _, _ = strings.Cut(inbox, "#key-")
	return inbox
}

// Servers is a page of servers.
type Servers struct {
	Servers    []Server `json:"servers"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// Window counts the outcomes of recent deliveries to a server.
type Window struct {
	Start    time.Time `json:"start"`
	Attempts int       `json:"attempts"`
	Failures int       `json:"failures"`
}

// RateLimit is how many deliveries a minute a server gets.
type RateLimit struct {
	PerMinute int       `json:"perMinute"`
	Burst     int       `json:"burst,omitempty"`
	Learnt    bool      `json:"learnt,omitempty"` // from its 429 answers, not set
	Until     time.Time `json:"until,omitzero"`
}

// SipherKeys are a Sipher server's public keys in base64.
type SipherKeys struct {
	Signing    string `json:"publicKey"`
	Encryption string `json:"encryptionPublicKey"`
}

// RefusedKeys are keys that a Sipher server showed in place of its pinned ones.
type RefusedKeys struct {
	SipherKeys
	Via       string    `json:"via"`
	FirstSeen time.Time `json:"firstSeen"`
	LastSeen  time.Time `json:"lastSeen"`
	Count     int       `json:"count"`
}

// HostSettings is the body of PUT /v1/servers/{host} for a host of the fediverse; for a Sipher
// server it is SipherKeys. A nil RateLimit removes the limit.
type HostSettings struct {
	RateLimit *RateSetting `json:"rateLimit,omitempty"`
}

// RateSetting is a rate limit as an operator sets it. Burst is how many deliveries may be
// sent at once; 0: as many as the limit allows in five seconds.
type RateSetting struct {
	PerMinute int `json:"perMinute"`
	Burst     int `json:"burst,omitempty"`
}

// Block is the body of POST /v1/servers/{host}/block.
type Block struct {
	Reason string `json:"reason,omitempty"` // in words, for operators
}

// Pause is the body of POST /v1/servers/{host}/pause. With neither Until nor For
// the pause has no end.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	For    Duration  `json:"for,omitempty"`
}

// ServerQuery selects servers; its zero value all that have a record.
type ServerQuery struct {
	Phase    Phase
	Protocol string
	Waiting  bool // count what waits for each
	Limit    int  // 0: no limit
}

// Hosted is what is recorded of one host.
type Hosted struct {
	Host    string
	Own     *Server // nil: nothing is listed of the host itself
	Inboxes []Server
}

// ByHost groups servers by host, in the order in which the hosts come.
func ByHost(all []Server) []Hosted {
	var hosts []Hosted
	at := map[string]int{}
	for _, s := range all {
		host := cmp.Or(s.Host, s.Name)
		i, ok := at[host]
		if !ok {
			i = len(hosts)
			at[host], hosts = i, append(hosts, Hosted{Host: host})
		}
		if s.Host == "" {
			hosts[i].Own = &s
		} else {
			hosts[i].Inboxes = append(hosts[i].Inboxes, s)
		}
	}
	return hosts
}

// Servers lists the servers that have a record.
func (c *Client) Servers(ctx context.Context, q ServerQuery) iter.Seq2[Server, error] {
	return pages[Server](ctx, c, "/v1/servers", queryOf("phase", string(q.Phase), "protocol", q.Protocol, "waiting", trueOf(q.Waiting)), "servers", q.Limit, 1000)
}

func serverPath(name string) string { return "/v1/servers/" + url.PathEscape(name) }

// Server returns what is known of a server. Its name is a host, "inbox:" and the URL of an
// inbox, a Sipher server's URL, or to block and unblock "*." and a domain.
func (c *Client) Server(ctx context.Context, name string) (Server, error) {
	return get[Server](ctx, c, serverPath(name), nil)
}

// LimitServer sets how many deliveries a minute a host gets; nil removes the limit.
func (c *Client) LimitServer(ctx context.Context, name string, limit *RateSetting) (Server, error) {
	return c.act(ctx, http.MethodPut, name, "", HostSettings{RateLimit: limit})
}

// PinServer pins the public keys of a Sipher server.
func (c *Client) PinServer(ctx context.Context, url string, k SipherKeys) (Server, error) {
	return c.act(ctx, http.MethodPut, url, "", k)
}

// ForgetServer forgets what is recorded of a host or an inbox, an operator's block, pause and
// limit included.
func (c *Client) ForgetServer(ctx context.Context, name string) error {
	return c.do(ctx, request{method: http.MethodDelete, path: serverPath(name)}, nil)
}

// BlockServer refuses all deliveries to a server.
func (c *Client) BlockServer(ctx context.Context, name string, b Block) (Server, error) {
	return c.act(ctx, http.MethodPost, name, "/block", b)
}

// UnblockServer ends a block.
func (c *Client) UnblockServer(ctx context.Context, name string) (Server, error) {
	return c.act(ctx, http.MethodPost, name, "/unblock", nil)
}

// PauseServer holds deliveries to a server back.
func (c *Client) PauseServer(ctx context.Context, name string, p Pause) (Server, error) {
	return c.act(ctx, http.MethodPost, name, "/pause", p)
}

// ResumeServer ends a pause.
func (c *Client) ResumeServer(ctx context.Context, name string) (Server, error) {
	return c.act(ctx, http.MethodPost, name, "/resume", nil)
}

// CheckServer makes the next check of a server that is down due now.
func (c *Client) CheckServer(ctx context.Context, name string) (Server, error) {
	return c.act(ctx, http.MethodPost, name, "/check", nil)
}

// act sets a state of a server, which is safe to repeat.
func (c *Client) act(ctx context.Context, method, name, act string, in any) (Server, error) {
	return send[Server](ctx, c, request{method: method, path: serverPath(name) + act, in: in, harmless: true})
}
