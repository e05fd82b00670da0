package enqueue

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"reflect"
	"slices"
)

// said says of every field of Request what it adds to the fingerprint. A field
// that is missing here fails a test.
var said = map[string]adds{
	"Protocol": itself, "Body": itself, "KeyID": itself, "Job": itself, "ServerURL": itself,
	"OrderingKey": itself, "Delay": itself, "Priority": itself, "ExpiresIn": itself,
	"Headers": itself, "Coalesce": itself, "CoalesceCreate": itself, "Notify": itself,
	// Recipients count as a set, in canonical spelling, after the shared-inbox
	// collapse.
	"Recipients": inboxes, "EveryInbox": nothing,
	// A permission changes nothing about the delivery.
	"AllowKeyOfOther": nothing,
	// The fingerprint is stored under the key, and the key's window changes
	// nothing about the delivery.
	"DeduplicationKey": nothing, "DeduplicationTTL": nothing,
}

// adds says what a field of Request contributes to the fingerprint.
type adds int

const (
	itself adds = iota + 1
	inboxes
	nothing
)

// fingerprint tells apart requests that come with the same key, by all that the
// caller asked for, after defaults. Empty fields add nothing, so a new field does
// not change the fingerprints of requests that leave it empty.
func fingerprint(p *plan) string {
	h := sha256.New()
	text(h, p.operation)
	number(h, int64(len(p.items)))
	for _, it := range p.items {
		r := reflect.ValueOf(it.Request)
		for _, field := range reflect.VisibleFields(r.Type()) {
			switch v := r.FieldByIndex(field.Index); said[field.Name] {
			case inboxes:
				text(h, field.Name)
				sumInboxes(h, it)
			case itself:
				if !v.IsZero() {
					text(h, field.Name)
					text(h, fmt.Sprint(reflect.Indirect(v)))
				}
			}
		}
	}
	// 128 bits suffice to tell one client's requests apart, and keep each record
	// small.
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func sumInboxes(h hash.Hash, it item) {
	all := make([]string, len(it.targets))
	for i, t := range it.targets {
		if all[i] = t.Inbox; t.Headers != "" {
			all[i] += "\n" + string(t.Headers)
		}
	}
	slices.Sort(all)
	number(h, int64(len(all)))
	for _, inbox := range all {
		text(h, inbox)
	}
}

func text(h hash.Hash, s string) {
	number(h, int64(len(s)))
	h.Write([]byte(s))
}

func number(h hash.Hash, n int64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}
