package contract

import (
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/servers/circuit"
)

// Server is the state of one server: a host of the fediverse, a single inbox of a host,
// or a Sipher server.
type Server struct {
	Name     string            `json:"server"`
	Protocol activity.Protocol `json:"protocol"`
	Phase    circuit.Phase     `json:"phase"`
	Since    time.Time         `json:"since,omitzero"` // of this phase
	Until    time.Time         `json:"until,omitzero"` // when a pause, or the belief that it is gone, ends
	// Reason is the class of the last fault, and Why is it in words.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`

	DownSince   time.Time `json:"downSince,omitzero"` // begin of the present outage
	Failures    int       `json:"failuresInARow,omitempty"`
	Window      *Window   `json:"window,omitempty"`
	Checks      int       `json:"failedChecks,omitempty"` // of the present outage
	NextCheckAt time.Time `json:"nextCheckAt,omitzero"`   // or next release
	// Parked is true if deliveries may be parked for the server.
	Parked bool `json:"parked,omitempty"`

	SignatureForm string     `json:"signatureForm,omitempty"`
	RateLimit     *RateLimit `json:"rateLimit,omitempty"`

	// Keys are the pinned keys of a Sipher server. RefusedKeys are other keys that the
	// server has shown since.
	Keys        *SipherKeys  `json:"keys,omitempty"`
	RefusedKeys *RefusedKeys `json:"refusedKeys,omitempty"`
	LastSeen    time.Time    `json:"lastSeen,omitzero"`
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

// HostSettings is the body of PUT /v1/servers/{host} for a host of the fediverse;
// for a Sipher server it is SipherKeys. A nil RateLimit ends the limit.
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
	Reason string `json:"reason,omitempty"` // in words, for whoever looks at it later
}

// Pause is the body of POST /v1/servers/{host}/pause. With neither Until nor For
// the pause has no end.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	For    Duration  `json:"for,omitempty"`
}
