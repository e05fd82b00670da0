package move

import (
	"context"
	"errors"
	"fmt"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
)

// peer is a server of the Sipher protocol with its pinned keys.
type peer struct{ peers.Server }

// peers exports the servers that we have sent to. The others registered themselves, and do so again.
func (from Installation) peers(ctx context.Context, _ string) (found []thing, _ string, err error) {
	all, err := from.store.Sipher().Servers(ctx)
	for _, s := range all {
		if s.Stranger {
			continue
		}
		// Health is not exported: the next delivery decides.
		found = append(found, peer{peers.Server{
			URL: s.URL, PublicKey: s.PublicKey, EncryptionKey: s.EncryptionKey,
			LastSeen: s.LastSeen, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, IsHealthy: true, Unannounced: s.Unannounced,
		}})
	}
	return found, "", err
}

func (peer) kind() kind { return peerKind }

func (p peer) name() string { return "Sipher server " + p.URL }

func (p peer) check() error {
	if err := checkServer(p.URL); err != nil {
		return err
	}
	for _, k := range []string{p.PublicKey, p.EncryptionKey} {
		if _, err := crypto.DecodeSize(k, crypto.KeySize); err != nil {
			return fmt.Errorf("%w: %s: no public key: %w", ErrNotExport, p.name(), err)
		}
	}
	return nil
}

func checkServer(url string) error {
	if name, err := activity.CanonicalServer(url); err != nil || name != url {
		return fmt.Errorf("%w: %.200q names no Sipher server", ErrNotExport, url)
	}
	return nil
}

func (p peer) stands(ctx context.Context, to Installation) (standing, error) {
	there, err := to.store.Sipher().Server(ctx, p.URL)
	if errors.Is(err, peers.ErrUnknown) {
		return absent, nil
	}
	return compare(err == nil, there.PublicKey == p.PublicKey && there.EncryptionKey == p.EncryptionKey), err
}

func (p peer) write(ctx context.Context, to Installation, replace bool) error {
	x := to.store.Sipher()
	there, inserted, err := x.Insert(ctx, p.Server)
	switch {
	case err != nil || inserted:
		return err
	case there.PublicKey == p.PublicKey && there.EncryptionKey == p.EncryptionKey:
		return nil
	case !replace:
		return ErrDiffers
	}
	return x.SetKeys(ctx, p.URL, p.PublicKey, p.EncryptionKey, to.now())
}

type sipherBlock struct{ peers.Block }

func (from Installation) sipherBlocks(ctx context.Context, _ string) ([]thing, string, error) {
	all, err := from.store.Sipher().Blocks(ctx)
	return things(all, func(b peers.Block) thing { return sipherBlock{b} }), "", err
}

func (sipherBlock) kind() kind { return blockKind }

func (b sipherBlock) name() string { return "block of Sipher server " + b.ServerURL }

func (b sipherBlock) check() error { return checkServer(b.ServerURL) }

func (b sipherBlock) stands(ctx context.Context, to Installation) (standing, error) {
	there, err := to.store.Sipher().BlockOf(ctx, b.ServerURL)
	return compare(there != nil, there != nil && there.Reason == b.Reason), err
}

func (b sipherBlock) write(ctx context.Context, to Installation, _ bool) error {
	return to.store.Sipher().Block(ctx, b.Block)
}

// followed is a follow that was announced to a Sipher server.
type followed struct{ follow.Follow }

func (from Installation) follows(ctx context.Context, cursor string) ([]thing, string, error) {
	all, next, err := from.store.Sipher().Follows(ctx, cursor, page)
	return things(all, func(f follow.Follow) thing { return followed{f} }), next, err
}

func (followed) kind() kind { return followKind }

func (f followed) name() string { return "follow " + f.ID }

func (f followed) check() error {
	if f.FollowerID == "" || f.FollowingID == "" || f.FollowerServerURL == "" {
		return fmt.Errorf("%w: a follow names nobody", ErrNotExport)
	}
	return nil
}

// stands keeps a follow that the installation has: it is newer.
func (f followed) stands(ctx context.Context, to Installation) (standing, error) {
	there, found, err := to.store.Sipher().Follow(ctx, f.Key())
	switch {
	case err != nil || !found:
		return absent, err
	case there.ID == f.ID && there.Accepted == f.Accepted && there.Acknowledged == f.Acknowledged:
		return same, nil
	}
	return own, nil
}

func (f followed) write(ctx context.Context, to Installation, _ bool) error {
	return to.store.Sipher().RecordFollow(ctx, f.Follow)
}
