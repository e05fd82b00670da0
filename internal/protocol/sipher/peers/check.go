package peers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"
)

// The protocol's numbers.
const (
	// MaxChecks is how many checks of an outage may fail, by default, before checks end. The next
	// delivery that fails begins them again.
	MaxChecks = 5
	// Concurrency is how many servers are checked at once, by default.
	Concurrency = 3
	// ProbeTimeout is how long a server has to answer a check.
	ProbeTimeout = 8 * time.Second

	firstDelay = 5 * time.Minute
	delayStep  = 10 * time.Minute
)

// CheckDelay is the wait before a check, by its number from 0.
func CheckDelay(attempt int) time.Duration {
	return firstDelay + time.Duration(attempt)*delayStep
}

// Check is one scheduled check of a server.
type Check struct {
	ServerURL string    `json:"serverUrl"`
	Attempt   int       `json:"attempt"`
	DueAt     time.Time `json:"-"`
	// Version fences changes; the storage sets it.
	Version string `json:"-"`
}

// ID is the same for every schedule of the same check.
func (c Check) ID() string {
	sum := sha256.Sum256([]byte(c.ServerURL))
	return "health-check_" + hex.EncodeToString(sum[:])[:16] + "_" + strconv.Itoa(c.Attempt)
}

// ErrTaken says that another run has taken or finished a check.
var ErrTaken = errors.New("check was taken by another run")

// Schedule is what checks need of their storage.
type Schedule interface {
	// ScheduleCheck adds a check that is due at DueAt. If one of the same id waits already, it
	// changes nothing and scheduled is false.
	ScheduleCheck(ctx context.Context, c Check) (scheduled bool, err error)
	// HastenCheck makes the check of c's id due at DueAt at the latest, and adds it if there is none.
	HastenCheck(ctx context.Context, c Check) error
	// DueChecks returns checks due at or before now, earliest first.
	DueChecks(ctx context.Context, now time.Time, limit int) ([]Check, error)
	// PostponeCheck makes c due at another time and returns it with its new version, or ErrTaken
	// if it has changed.
	PostponeCheck(ctx context.Context, c Check, at time.Time) (Check, error)
	// FinishCheck removes c, or returns ErrTaken.
	FinishCheck(ctx context.Context, c Check) error
}
