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

// counted says what fields of Request add to the fingerprint, and in which order: fingerprints
// are stored. A field that is not listed counts after those that are, in the order of
// declaration.
var counted = []counts{
	{"Protocol", itself},
	{"Body", bodies},
	{"KeyID", itself},
	{"AllowKeyOfOther", nothing}, // a permission changes nothing about the delivery
	{"Metadata", nothing},        // metadata is only returned to the caller
	{"Headers", itself},
	{"Job", itself},
	{"ServerURL", itself},
	// Recipients count as a set, in canonical spelling, after the shared-inbox collapse.
	{"Recipients", inboxes},
	{"EveryInbox", nothing},
	// The fingerprint is stored under the key, and the key's window changes nothing about
	// the delivery.
	{"DeduplicationKey", nothing},
	{"DeduplicationTTL", nothing},
	{"DeduplicateBy", nothing},
	{"OrderingKey", itself},
	{"Delay", itself},
	{"Priority", itself},
	{"ExpiresIn", itself},
	{"Notify", itself},
	{"Coalesce", itself},
	{"CoalesceCreate", itself},
}

// counts says what a field adds.
type counts struct {
	field string
	adds  adds
}

// allCounted is counted with the fields that it does not list.
func allCounted() []counts {
	all := slices.Clone(counted)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		if !f.Anonymous && !slices.ContainsFunc(counted, func(c counts) bool { return c.field == f.Name }) {
			all = append(all, counts{f.Name, itself})
		}
	}
	return all
}

// adds says what a field of Request contributes to the fingerprint.
type adds int

const (
	itself adds = iota + 1
	bodies      // itself, but not by ByKey
	inboxes
	nothing
)

// fingerprint distinguishes requests with the same key. Empty fields add nothing, so a new
// field does not change the fingerprints of requests without it.
func fingerprint(p *plan) string {
	h := sha256.New()
	text(h, p.operation)
	number(h, int64(len(p.items)))
	fields := allCounted()
	for _, it := range p.items {
		r := reflect.ValueOf(it.Request)
		for _, c := range fields {
			switch v := r.FieldByName(c.field); c.adds {
			case bodies:
				if p.by != ByKey {
					text(h, c.field)
					text(h, *it.Body)
				}
			case inboxes:
				text(h, c.field)
				sumInboxes(h, it)
			case itself:
				if !v.IsZero() {
					text(h, c.field)
					text(h, fmt.Sprint(reflect.Indirect(v)))
				}
			}
		}
	}
	// 128 bits suffice for one client's requests, and keep records small.
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
