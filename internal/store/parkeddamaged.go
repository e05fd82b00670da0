package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"fedpost/internal/activity"
	"fedpost/internal/engine/table"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// storeKey is the key of an item without a parking.ID, for parking.Parked.StoreKey.
func storeKey(k table.Key) string { return k.PK + "\x00" + k.SK }

func tableKey(storeKey string) table.Key {
	pk, sk, _ := strings.Cut(storeKey, "\x00")
	return table.Key{PK: pk, SK: sk}
}

// salvage returns the parked delivery of an item that cannot be read, from the item's key
// and from what the ledger knows of its activity. That is enough to record its end. A
// delivery of which the ledger knows no recipient has a StoreKey.
func (s *Store) salvage(ctx context.Context, key string, it table.Item, why error) (parking.Parked, error) {
	p := parking.Parked{Key: key, Damaged: why, Since: s.now(), GiveUp: s.now()}
	if p.Key == "" {
		p.Key = strings.TrimPrefix(it.PK, "P#")
		p.Key = p.Key[:max(0, strings.LastIndexByte(p.Key, '#'))]
	}
	lost := p
	lost.StoreKey, lost.Delivery.Targets = storeKey(it.Key), activity.Targets{{}}
	u, sequence, ok := parseParkedKey(it.SK)
	if !ok {
		return lost, nil
	}
	lost.Activity.ID, lost.Delivery.Chunk, lost.Delivery.Position, lost.Delivery.Generation = u.Activity, u.Chunk, u.Position, u.Generation
	r, err := s.Activity(ctx, u.Activity)
	if err == nil {
		err = s.salvageFrom(ctx, &p, r, u)
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, errDamaged):
		lost.Damaged = errors.Join(why, err)
		return lost, nil
	case err != nil:
		return p, fmt.Errorf("read what the ledger knows of a damaged delivery: %w", err)
	}
	p.Activity.Sequence, p.Sequence = sequence, sequence
	// The item's key has only a digest of a long key.
	inbox := p.Delivery.Targets[0]
	for _, p.Key = range []string{p.Key, circuit.HostKey(inbox.Host()), circuit.InboxKey(inbox.Inbox)} {
		for _, p.Delivery.Alone = range []bool{false, true} {
			if p.Group = p.Delivery.Group(p.Activity); parkedKey(p.ID()) == it.Key {
				return p, nil
			}
		}
	}
	return lost, nil
}

// salvageFrom adds to p what the ledger knows of a unit. Its error wraps ledger.ErrNotFound if the
// ledger knows no such recipient.
func (s *Store) salvageFrom(ctx context.Context, p *parking.Parked, r ledger.Record, u message.Unit) error {
	if r.Forgotten || u.Chunk >= r.Chunks() {
		return fmt.Errorf("%w: no chunk %d of activity %s", ledger.ErrNotFound, u.Chunk, u.Activity)
	}
	chunks, err := s.Chunks(ctx, r, u.Chunk, u.Chunk)
	if err != nil {
		return err
	}
	if u.Position >= len(chunks[0].Targets) {
		return fmt.Errorf("%w: no position %d in chunk %d of activity %s", ledger.ErrNotFound, u.Position, u.Chunk, u.Activity)
	}
	p.Activity = activity.Activity{
		ID: u.Activity, Protocol: r.Protocol, Type: r.Type, Options: activity.Options{OrderingKey: r.OrderingKey}, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
	known, attempted := chunks[0].Recipients[u.Position]
	p.Attempted, p.Since = attempted, r.CreatedAt
	p.Delivery = message.Delivery{
		Chunk: u.Chunk, Position: u.Position, Generation: u.Generation,
		Targets: chunks[0].Targets[u.Position : u.Position+1], Attempts: known.Attempts, Unsent: known.Unsent,
	}
	return nil
}

// parseParkedKey reads a sort key, as parkedKey writes it.
func parseParkedKey(sk string) (u message.Unit, sequence string, ok bool) {
	parts := strings.Split(sk, "#")
	switch {
	case len(parts) == 5 && parts[0]+"#" == unordered:
		parts = parts[1:]
	case len(parts) == 7 && parts[0] == "O":
		sequence, parts = parts[2], parts[3:]
	default:
		return u, "", false
	}
	u, err := parseUnit(parts)
	return u, sequence, err == nil && u.Activity != ""
}

// unitKey is the part of a key that names a unit.
func unitKey(u message.Unit) string {
	return fmt.Sprintf("%s#%06d#%04d#%06d", u.Activity, u.Chunk, u.Position, u.Generation)
}

// parseUnit reads what unitKey has written, split at each "#".
func parseUnit(parts []string) (message.Unit, error) {
	u := message.Unit{Activity: activity.ID(parts[0])}
	for i, n := range []*int{&u.Chunk, &u.Position, &u.Generation} {
		part, err := strconv.ParseUint(parts[1+i], 10, 31)
		if err != nil {
			return u, err
		}
		*n = int(part)
	}
	return u, nil
}
