package client

import (
	"cmp"
	"context"
	"time"
)

// Stats is the answer to GET /v1/stats.
type Stats struct {
	At     time.Time             `json:"at"`
	Queues map[string]QueueDepth `json:"queues"`
	Counts map[string]int        `json:"counts"` // of all Days together
	Days   []Day                 `json:"days"`
	// Servers counts the servers that are not healthy, by phase, each host once; "inbox"
	// counts hosts of which only single inboxes are down.
	Servers map[string]int `json:"servers"`
	// Waiting counts the deliveries that wait for servers, if the request asked for it.
	Waiting *WaitingInAll `json:"waiting,omitempty"`
	// Webhooks counts the webhooks by state.
	Webhooks map[string]int `json:"webhooks"`
	// Outbox counts the rows that wait in the outbox, on PostgreSQL.
	Outbox *OutboxDepth `json:"outbox,omitempty"`
	// Unhealthy lists some of those that are down, one entry a host, the longest down first.
	Unhealthy []Trouble `json:"unhealthyServers"`
	// More: there are more servers than were counted.
	More bool `json:"moreServers,omitempty"`
}

func (s *Stats) whole() bool { return !s.At.IsZero() }

// countNames say what is counted where the name of a count does not. A recipient is counted each
// time that it is retried or parked, and once more when it is finished.
var countNames = map[string]string{
	"accepted": "recipients accepted", "attempts": "requests made", "duplicates": "calls that repeated a key",
	"deduplicationFallbacks": "calls whose key could not be looked up", "unrecorded": "activities without a record", "revived": "dead, and parked again when the server was back",
	"retrying": "to be tried again", "parked": "parked until the server is back", "failed": "refused for good", "dead": "given up",
}

// CountName says in words what a count of Stats is of.
func CountName(name string) string { return cmp.Or(countNames[name], name) }

// QueueDepth is how much is on a queue.
type QueueDepth struct {
	Visible  int `json:"visible"`
	InFlight int `json:"inFlight"`
	Delayed  int `json:"delayed"`
	// Oldest is the age of the oldest message in seconds, if the queue reports it. SQS
	// reports it to CloudWatch only.
	Oldest *int `json:"oldestSeconds,omitempty"`
}

// Day is what was counted on a day.
type Day struct {
	Day    string         `json:"day"` // UTC
	Counts map[string]int `json:"counts"`
}

// Trouble is a server that is not healthy.
type Trouble struct {
	Server    string    `json:"server"`            // the host, or the inbox that is down for longest
	Host      string    `json:"host,omitempty"`    // of an inbox
	KeyID     string    `json:"keyId,omitempty"`   // see Server
	Inboxes   int       `json:"inboxes,omitempty"` // how many single inboxes of the host are down
	Protocol  string    `json:"protocol"`
	Phase     Phase     `json:"phase"`
	DownSince time.Time `json:"downSince,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Why       string    `json:"why,omitempty"`
}

// History is the answer to GET /v1/stats/history: what the process that answers has
// counted over time. Other processes and earlier ones are not in it.
type History struct {
	From        time.Time `json:"from"` // begin of the first step; the last step is under way
	StepSeconds int       `json:"stepSeconds"`
	// Since is when the process began to count: what was before is unknown.
	Since time.Time `json:"since"`
	// Counts have a number for each step, by the names of Stats.Counts. A name without a
	// count is absent.
	Counts map[string][]int `json:"counts"`
}

// StatsQuery says what Stats counts.
type StatsQuery struct {
	Days    int  // today the last; 0: today alone, at most 31
	Waiting bool // count what waits for servers, too: too expensive for every second
}

// Stats returns the state of queues, deliveries and servers.
func (c *Client) Stats(ctx context.Context, q StatsQuery) (Stats, error) {
	return get[Stats](ctx, c, "/v1/stats", queryOf("waiting", trueOf(q.Waiting), "days", numberOf(q.Days)))
}

// History returns what the process that answers has counted over time: period is hour, day, or
// empty for hour. On AWS the answer is 404.
func (c *Client) History(ctx context.Context, period string) (History, error) {
	return get[History](ctx, c, "/v1/stats/history", queryOf("period", period))
}

// Health is the answer to GET /healthz of a process that can write.
type Health struct {
	Status string `json:"status"` // ok
}

// Health reports whether fedpost serves and can write; a 503 says that it cannot.
func (c *Client) Health(ctx context.Context) (Health, error) {
	return get[Health](ctx, c, "/healthz", nil)
}
