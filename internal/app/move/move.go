// Package move takes what an operator and experience have made of one installation to
// another one: from fedpost up to AWS, and back.
//
// What moves: signing keys; what operators have set of servers (blocks, pauses, limits) and
// what was learnt of them (circuits, signature forms, limits); webhooks with their secrets;
// servers and blocks of the Sipher protocol, and the follows that were announced. What stays:
// deliveries and their records, dead letters, events, deduplication keys, and the sealing
// key, because everything secret is sealed anew by its new installation.
//
// Private keys are never readable through the API. So package move works on the table and
// the sealer themselves, with the rights of whoever runs it: those to the data folder, or
// AWS credentials that may read the table and use the KMS key. Only cmd/fedpost links it.
package move

import (
	"context"
	"errors"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/ratelimit"
	"fedpost/internal/store"
)

// Installation is a fedpost to move from or to.
type Installation struct {
	store  *store.Store
	sealer keys.Sealer
	ring   *keys.Ring
	limits ratelimit.Limiter
	now    func() time.Time
}

// New returns the installation on a table whose secrets are sealed by sealer; nil: the table
// has none.
func New(t table.Table, sealer keys.Sealer, now func() time.Time) Installation {
	if sealer == nil {
		sealer = noSealer{}
	}
	s := store.New(t, now)
	return Installation{
		store: s, sealer: sealer, now: now,
		ring:   keys.New(s, sealer, keys.Options{Now: now}),
		limits: ratelimit.Limiter{Store: s, Now: now},
	}
}

// rules say how long records of servers are kept. Settings that differ from the defaults
// count from the next change of a record on.
var rules = circuit.Default()

// Errors of moves.
var (
	// ErrNotExport: the file was not written by Export, or not whole.
	ErrNotExport = errors.New("this is no whole export of fedpost")
	// ErrPassphrase: the passphrase is not the file's.
	ErrPassphrase = errors.New("wrong passphrase, or the begin of the file was changed: give the passphrase that it was exported with")
	// ErrDiffers: the installation has something else under a name that the file has.
	ErrDiffers = errors.New("the installation has something else")
)

// kind names what a file has, for reports.
type kind string

// The kinds, in the order in which they are moved: what makes deliveries fail or leak comes
// before the keys that make deliveries possible.
const (
	serverKind  kind = "servers"
	blockKind   kind = "sipherBlocks"
	peerKind    kind = "sipherServers"
	followKind  kind = "follows"
	webhookKind kind = "webhooks"
	keyKind     kind = "keys"
)

// standing is what an installation has of a thing that is to be imported.
type standing int

const (
	absent  standing = iota // nothing: it is added
	same                    // the same
	own                     // knowledge of its own, which is newer than the file's
	differs                 // something else: it is replaced if that was asked for
)

// thing is one of what a file has.
type thing interface {
	kind() kind
	name() string
	// check returns an error if no export can have it.
	check() error
	// stands compares with what the installation has.
	stands(ctx context.Context, to Installation) (standing, error)
	// write adds it, or replaces what is there.
	write(ctx context.Context, to Installation, replace bool) error
}

// noSealer is the sealer of a table that has never had one.
type noSealer struct{}

var errNoSealer = errors.New("the installation has no sealing key: run fedpost up on it once")

func (noSealer) Seal(context.Context, string, []byte) ([]byte, error) { return nil, errNoSealer }
func (noSealer) Open(context.Context, string, []byte) ([]byte, error) { return nil, errNoSealer }
