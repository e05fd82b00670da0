package sipher_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

// hostileText is what no record, log or terminal should see.
var hostileText = "\x1b[2J\x00\u202e\ufffe\xff" + strings.Repeat("x", 64<<10)

// clean reports whether a text is short and has no character that could paint a
// screen or that a queue refuses.
func clean(s string, limit int) bool {
	return len(s) <= limit && strings.IndexFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Noncharacter_Code_Point)
	}) < 0
}

func TestTextsOfPeersAreCutAndCleanedWhereTheyArise(t *testing.T) {
	card := func(s string) sipherpeer.Discovery { return sipherpeer.Discovery{Body: s} }
	quoted, err := json.Marshal(hostileText)
	if err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(b *bed){
		"network error":       func(b *bed) { b.acquainted(b.b); b.net.Fail(urlB, errors.New("malformed header: "+hostileText)) },
		"discovery error":     func(b *bed) { b.net.Fail(urlB, errors.New(hostileText)) },
		"discovery document":  func(b *bed) { b.b.Discover(card(hostileText)) },
		"key of the document": func(b *bed) { b.b.Discover(card(`{"publicKey":` + string(quoted) + `}`)) },
		"refusal":             func(b *bed) { b.acquainted(b.b); b.b.Behave(sipherpeer.Behavior{Status: 500, Body: hostileText}) },
		"answer":              func(b *bed) { b.acquainted(b.b); b.b.Behave(sipherpeer.Behavior{Body: hostileText}) },
		"date":                func(b *bed) { b.acquainted(b.b); b.b.Behave(sipherpeer.Behavior{CreatedAt: string(quoted)}) },
		"accepted":            func(b *bed) { b.acquainted(b.b); b.b.Behave(sipherpeer.Behavior{Accepted: string(quoted)}) },
		"reason of a block":   func(b *bed) { blockWith(b, hostileText) },
		"registered key":      func(b *bed) { b.insert(b.b, func(s *peers.Server) { s.EncryptionKey = hostileText }) },
		"error of a proxy":    func(b *bed) { b.blockedFromUs(notFound); b.acquainted(b.p); b.net.Fail(urlP, errors.New(hostileText)) },
		"refusal of a proxy": func(b *bed) {
			b.blockedFromUs(notFound)
			b.acquainted(b.p)
			b.p.Behave(sipherpeer.Behavior{ProxyStatus: 403, ProxyBody: hostileText})
		},
		"answer of a proxy": func(b *bed) {
			b.blockedFromUs(notFound)
			b.acquainted(b.p)
			b.p.Behave(sipherpeer.Behavior{ProxyBody: hostileText})
		},
		"check of the server": func(b *bed) {
			b.down()
			b.net.Fail(urlB, errors.New(hostileText))
			b.advance(peers.CheckDelay(0))
			b.check()
		},
		"registration refused": func(b *bed) { b.b.Discover(card(hostileText)); b.ask("POST", b.registrationOf(b.b)) },
		"call-back fails":      func(b *bed) { b.net.Fail(urlB, errors.New(hostileText)); b.ask("POST", b.registrationOf(b.b)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			prepare(b)
			o := b.attempt(followJob(), 1)
			for _, s := range []string{o.Err, o.Response, o.Note} {
				if !clean(s, outcome.MaxText) {
					t.Errorf("outcome: %d bytes: %.80q", len(s), s)
				}
			}
			for line := range strings.Lines(b.log.String()) {
				var m map[string]any
				if err := json.Unmarshal([]byte(line), &m); err != nil {
					t.Fatal(err)
				}
				for k, v := range m {
					if s, ok := v.(string); ok && !clean(s, outcome.MaxText+200) { // ours around a peer's
						t.Errorf("log, %s: %d bytes: %.80q", k, len(s), s)
					}
				}
			}
		})
	}
}

func blockWith(b *bed, reason string) {
	b.t.Helper()
	if err := b.store.Block(b.t.Context(), peers.Block{ServerURL: urlB, Reason: reason, CreatedAt: b.Now()}); err != nil {
		b.t.Fatal(err)
	}
}
