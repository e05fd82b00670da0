// Package move exports settings and learnt state of one installation and imports them into another
// one: from fedpost up to AWS, and back.
//
// It moves signing keys; operators' settings for servers (blocks, pauses, limits) and what was
// learnt of servers (circuits, signature forms, limits); webhooks with their secrets; servers,
// blocks and announced follows of the Sipher protocol. It does not move deliveries and their
// records, dead letters, events, deduplication keys, and the sealing key: secrets are sealed
// with the new installation's key.
//
// As the API does not expose private keys, package move uses the table and the sealer, with the
// caller's rights to the data folder, or to the table and the KMS key. Only cmd/fedpost links
// it.
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

// rules say how long records of servers are kept, until their next change.
var rules = circuit.Default()

// Errors of moves.
var (
	// ErrNotExport: the file was not written by Export, or is not complete.
	ErrNotExport = errors.New("this is not a complete export of fedpost")
	// ErrPassphrase: the passphrase is not the file's.
	ErrPassphrase = errors.New("wrong passphrase, or the beginning of the file was changed: give the passphrase of the export")
	// ErrDiffers: the installation has different data under a name of the file.
	ErrDiffers = errors.New("the installation has different data")
)

// kind names what a file has, for reports.
type kind string

const (
	serverKind  kind = "servers"
	blockKind   kind = "sipherBlocks"
	peerKind    kind = "sipherServers"
	followKind  kind = "follows"
	webhookKind kind = "webhooks"
	keyKind     kind = "keys"
)

var (
	// inOrder are the kinds in the order of the move: blocks and limits come before the keys, without
	// which nothing is sent.
	inOrder = []kind{serverKind, blockKind, peerKind, followKind, webhookKind, keyKind}
	// said has the same kinds in the order of reports.
	said = []kind{keyKind, serverKind, webhookKind, peerKind, blockKind, followKind}
)

var kinds = map[kind]struct {
	field     string // of its lines in a file
	one, many string // for people
	// export returns a page of an installation's things, and the cursor of the next; empty: there is none.
	export func(from Installation, ctx context.Context, cursor string) ([]thing, string, error)
	read   func(text []byte) (thing, error)
}{
	serverKind:  {"server", "server", "servers", Installation.servers, read[server]},
	blockKind:   {"sipherBlock", "block of a Sipher server", "blocks of Sipher servers", Installation.sipherBlocks, read[sipherBlock]},
	peerKind:    {"sipherServer", "Sipher server", "Sipher servers", Installation.peers, read[peer]},
	followKind:  {"follow", "follow", "follows", Installation.follows, read[followed]},
	webhookKind: {"webhook", "webhook", "webhooks", Installation.webhooks, read[hook]},
	keyKind:     {"key", "key", "keys", Installation.keys, read[key]},
}

// standing compares a thing of a file with the installation.
type standing int

const (
	absent  standing = iota // nothing: it is added
	same                    // the same
	own                     // learnt state of its own, which is kept
	differs                 // different: it is replaced on request
)

// things are the entries of a page of an export.
func things[T any](all []T, of func(T) thing) []thing {
	page := make([]thing, len(all))
	for i, one := range all {
		page[i] = of(one)
	}
	return page
}

// thing is an entry of a file.
type thing interface {
	kind() kind
	name() string
	// check returns an error if it is invalid.
	check() error
	// stands compares with what the installation has.
	stands(ctx context.Context, to Installation) (standing, error)
	// write adds it, or replaces what is there.
	write(ctx context.Context, to Installation, replace bool) error
}

// noSealer is the sealer of a table without a sealing key.
type noSealer struct{}

var errNoSealer = errors.New("the installation has no sealing key: run fedpost up on it once")

func (noSealer) Seal(context.Context, string, []byte) ([]byte, error) { return nil, errNoSealer }
func (noSealer) Open(context.Context, string, []byte) ([]byte, error) { return nil, errNoSealer }
