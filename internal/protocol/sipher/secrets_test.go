package sipher_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"

	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/testkit/sipherpeer"
)

// privateForms are parts of the forms in which a private half could be printed.
func privateForms(t *testing.T, settings map[string]string) map[string]string {
	t.Helper()
	forms := map[string]string{}
	for name, b := range map[string][]byte{
		"signing": decode(t, settings[crypto.SettingPrivateKey])[:32], "encryption": decode(t, settings[crypto.SettingEncryptionPrivate]),
	} {
		decimal := strings.Trim(fmt.Sprint(b), "[]")
		goSyntax := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", b), "[]byte{"), "}")
		var words []string
		for _, c := range b[:5] {
			words = append(words, fmt.Sprintf("0x%x", c))
		}
		forms[name+" base64"] = base64.StdEncoding.EncodeToString(b)[:32]
		forms[name+" base64url"] = base64.URLEncoding.EncodeToString(b)[:32]
		forms[name+" hex"] = hex.EncodeToString(b)[:24]
		forms[name+" HEX"] = strings.ToUpper(hex.EncodeToString(b)[:24])
		forms[name+" decimal"] = decimal[:24]
		forms[name+" Go"] = goSyntax[:30]
		forms[name+" stack"] = strings.Join(words, ", ")
		forms[name+" raw"] = string(b[:12])
		forms[name+" quoted"] = strings.Trim(fmt.Sprintf("%q", b[:12]), `"`)
	}
	return forms
}

func decode(t *testing.T, s string) []byte {
	t.Helper()
	b, err := crypto.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("no entropy") }

// TestInvariant6NoPrivateHalfIsPrinted looks for our private keys in all that an
// attempt, a registration, a check, a crash and a fault of the settings leave
// behind.
func TestInvariant6NoPrivateHalfIsPrinted(t *testing.T) {
	b := newBed(t)
	settings := b.a.Settings()
	var seen bytes.Buffer
	say := func(v ...any) {
		for _, x := range v {
			fmt.Fprintf(&seen, "%v\n%+v\n%#v\n%s\n%q\n", x, x, x, x, x)
		}
	}

	// Printed before its first request: fmt would read what its connections write.
	say(b.proto, *b.proto)
	slog.New(slog.NewTextHandler(&seen, nil)).Info("x", "protocol", b.proto)

	b.b.Behave(sipherpeer.Behavior{Status: 500}, sipherpeer.Behavior{BadSignature: true}, sipherpeer.Behavior{Garbage: true},
		sipherpeer.Behavior{WrongRecipient: true}, sipherpeer.Behavior{Reset: true}, sipherpeer.Behavior{})
	for n := range 8 {
		say(b.attempt(strangerFollow(n), n+1))
	}
	b.net.Fail(urlB, notFound)
	b.acquainted(b.p)
	say(b.attempt(postJob(), 1))
	b.check()
	say(b.ask("GET", "").Body, b.ask("POST", b.registrationOf(b.p)).Body, b.ask("POST", "{").Body)
	for _, p := range []*sipherpeer.Peer{b.b, b.p} {
		for _, r := range p.Received() {
			say(r.Header, r.Body, r.Plaintext)
		}
	}

	id := b.identity()
	asJSON, err := json.Marshal(map[string]any{"id": id, "config": struct{ Identity crypto.Identity }{id}})
	if err != nil {
		t.Fatal(err)
	}
	say(id, &id, struct{ id crypto.Identity }{id}, []any{id}, map[string]any{"id": id}, string(asJSON), fmt.Errorf("wrapped: %v", id))
	slog.New(slog.NewTextHandler(&seen, nil)).Info("x", "id", id, "config", sipher.Config{Identity: id})

	func() {
		defer func() { say(recover(), string(debug.Stack())) }()
		crashing := newBed(t, func(c *sipher.Config) { c.Identity, c.Entropy = id, panics{} })
		crashing.acquainted(crashing.b)
		crashing.attempt(postJob(), 1)
		t.Error("no panic")
	}()

	for _, broken := range []string{crypto.SettingPrivateKey, crypto.SettingEncryptionPrivate, crypto.SettingPublicKey, crypto.SettingEncryptionKey} {
		for _, change := range []func(string) string{
			func(s string) string { return s[:len(s)-8] }, func(s string) string { return s + "AAAA" }, func(s string) string { return s + "?" },
			func(string) string { return b.p.Settings()[broken] }, func(string) string { return "" },
		} {
			_, err := crypto.LoadIdentity(func(name string) string {
				if name == broken {
					return change(settings[name])
				}
				return settings[name]
			})
			if err == nil {
				t.Errorf("%s: a faulty setting loads", broken)
			}
			say(err)
			for _, inner := range flatten(err) {
				say(inner)
			}
		}
	}

	all := seen.String() + b.log.String()
	for form, text := range privateForms(t, settings) {
		if i := strings.Index(all, text); i >= 0 {
			t.Errorf("%s: …%.120q", form, all[max(0, i-60):])
		}
	}
	if !strings.Contains(all, crypto.Fingerprint(b.a.PublicKey())) || !strings.Contains(all, "no entropy") {
		t.Error("the test does not see what it should")
	}
}

func flatten(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
