package sipher_test

import (
	"testing"

	"pgregory.net/rapid"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/property"
	"fedpost/internal/testkit/sipherpeer"
)

// trouble is a set of things that are wrong at once.
type trouble struct {
	payload, blocked, unknown, undiscoverable, badKey, noOrigin, noSigningKey bool
	answer                                                                    string
}

// first returns what the first row that applies says, in the table's order.
func (x trouble) first() want {
	final := want{class: outcome.Refused}
	switch {
	case x.payload, x.blocked:
		return want{class: outcome.Refused, discard: true, unattempted: true}
	case x.unknown && x.noOrigin:
		// Row 3 would ask in vain: row 5 is known without asking.
		return want{class: outcome.Refused, unattempted: true}
	case x.unknown && x.undiscoverable, !x.unknown && x.badKey:
		return want{class: outcome.Retry, unattempted: true, tried: true}
	case x.noOrigin:
		return want{class: outcome.Refused, unattempted: true}
	}
	switch x.answer {
	case "down", "500":
		return want{class: outcome.Retry}
	case "text", "legacy":
		return final
	case "garbage":
		final.discard = true
		return final
	}
	if x.noSigningKey && !x.unknown {
		return final
	}
	final.discard = true
	if x.answer == "unsigned" {
		return final
	}
	return want{class: outcome.Delivered, discard: true}
}

func TestTheFirstRowThatAppliesDecides(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		flag := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, name) == 0 }
		x := trouble{
			payload: flag("payload"), blocked: flag("blocked"), unknown: flag("unknown"), undiscoverable: flag("undiscoverable"),
			badKey: flag("badKey"), noOrigin: flag("noOrigin"), noSigningKey: flag("noSigningKey"),
			answer: rapid.SampledFrom([]string{"good", "down", "500", "text", "legacy", "garbage", "unsigned"}).Draw(rt, "answer"),
		}
		o := x.attempt(t)
		w := x.first()
		if o.Class != w.class || (o.Try != outcome.Made) != w.unattempted || (o.Try == outcome.Unsent) != w.tried || o.Discard != w.discard {
			rt.Fatalf("%+v: %+v, want %+v", x, o, w)
		}
	})
}

func (x trouble) attempt(t *testing.T) outcome.Outcome {
	t.Helper()
	var opts []option
	if x.noOrigin {
		opts = append(opts, without(crypto.SettingOrigin))
	}
	b := newBed(t, opts...)
	b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	a := followJob()
	if x.payload {
		a.Body = "{}"
	}
	if x.blocked {
		block(b, urlB)
	}
	if !x.unknown {
		b.insert(b.b, func(s *peers.Server) {
			if x.badKey {
				s.EncryptionKey = "QQ=="
			}
			if x.noSigningKey {
				s.PublicKey = ""
			}
		})
	}
	if x.undiscoverable {
		b.b.Discover(sipherpeer.Discovery{Status: 500})
	}
	b.b.Behave(map[string]sipherpeer.Behavior{
		"down": {Reset: true}, "500": {Status: 500}, "text": {Form: sipherpeer.Text}, "legacy": {Form: sipherpeer.Legacy},
		"garbage": {Garbage: true}, "unsigned": {NoSignature: true},
	}[x.answer])
	return b.attempt(a, 1)
}
