package contract

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
	"fedpost/internal/servers/circuit"
)

// Stats is the answer to GET /v1/stats: the state of things.
type Stats struct {
	At     time.Time                 `json:"at"`
	Queues map[queue.Name]QueueDepth `json:"queues"`
	Counts map[string]int            `json:"counts"` // of all Days together
	Days   []Day                     `json:"days"`
	// Servers counts the servers that are not healthy, by phase; "inbox" counts single
	// inboxes that fail on healthy servers.
	Servers map[string]int `json:"servers"`
	// Waiting is what waits for servers, if the request has asked for it.
	Waiting *WaitingInAll `json:"waiting,omitempty"`
	// Webhooks counts the webhooks by state.
	Webhooks map[string]int `json:"webhooks"`
	// Unhealthy lists some of these servers, the longest down first.
	Unhealthy []Trouble `json:"unhealthyServers"`
	// More: there are more servers than were counted.
	More bool `json:"moreServers,omitempty"`
}

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
	Server    string            `json:"server"`
	Protocol  activity.Protocol `json:"protocol"`
	Phase     circuit.Phase     `json:"phase"`
	DownSince time.Time         `json:"downSince,omitzero"`
	Reason    string            `json:"reason,omitempty"`
	Why       string            `json:"why,omitempty"`
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
