package crypto_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"fedpost/internal/protocol/sipher/crypto"
)

// vectorEnv returns the settings of one of the servers of the vectors.
func vectorEnv(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Keys map[string]map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	env := v.Keys[name]
	if env == nil {
		t.Fatalf("no keys of %s", name)
	}
	env[crypto.SettingOrigin] = env["url"]
	return env
}

func getenv(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

func TestIdentityOfTheVectorsLoads(t *testing.T) {
	for _, name := range []string{"A", "B", "P", "A_rotated"} {
		env := vectorEnv(t, name)
		id, err := crypto.LoadIdentity(getenv(env))
		if err != nil {
			t.Fatal(err)
		}
		if err := id.Ready(); err != nil {
			t.Error(err)
		}
		if id.Origin != env["url"] || id.PublicKey != env[crypto.SettingPublicKey] || id.EncryptionKey != env[crypto.SettingEncryptionKey] {
			t.Errorf("%s: %v", name, id)
		}
		if !crypto.Verify(id.PublicKey, "hello", id.Sign("hello")) {
			t.Errorf("%s: own signature does not verify", name)
		}
		public, err := crypto.Decode(id.EncryptionKey)
		if err != nil {
			t.Fatal(err)
		}
		e, err := crypto.Seal(rand.Reader, public, "hello")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := id.Open(e); err != nil || got != "hello" {
			t.Errorf("%s: Open = %q, %v", name, got, err)
		}
	}
}

func TestKeysAreReadInUrlSafeAndUnpaddedForm(t *testing.T) {
	env := vectorEnv(t, "A")
	want, err := crypto.LoadIdentity(getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range env {
		if b, err := base64.StdEncoding.DecodeString(v); err == nil && strings.HasPrefix(k, "FEDERATION_") {
			env[k] = " " + base64.RawURLEncoding.EncodeToString(b) + "\n"
		}
	}
	got, err := crypto.LoadIdentity(getenv(env))
	if err != nil || got.PublicKey != want.PublicKey || got.EncryptionKey != want.EncryptionKey {
		t.Errorf("the identity is %v, error %v; want the keys of %v", got, err, want)
	}
}

func TestAllFaultsOfAConfigurationAreReportedAtOnce(t *testing.T) {
	b := vectorEnv(t, "B")
	env := vectorEnv(t, "A")
	env[crypto.SettingOrigin] = "https://a.example/"
	env[crypto.SettingPublicKey] = b[crypto.SettingPublicKey]
	env[crypto.SettingEncryptionKey] = "QQ=="
	delete(env, crypto.SettingEncryptionPrivate)
	_, err := crypto.LoadIdentity(getenv(env))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, s := range []string{
		"BETTER_AUTH_URL: remove the trailing slash",
		"FEDERATION_PUBLIC_KEY: does not belong to FEDERATION_PRIVATE_KEY",
		"FEDERATION_ENCRYPTION_PUBLIC_KEY: must be the 32-byte X25519 public key in base64: wrong length: 1 bytes instead of 32",
		"FEDERATION_ENCRYPTION_PRIVATE_KEY: is missing",
	} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in\n%v", s, err)
		}
	}
	var f *crypto.SettingFault
	if !errors.As(err, &f) || f.Setting != crypto.SettingOrigin {
		t.Errorf("not a *Fault: %v", err)
	}
}

func TestEveryFaultySettingIsRefused(t *testing.T) {
	b := vectorEnv(t, "B")
	for name, change := range map[string]map[string]string{
		"origin without scheme":    {crypto.SettingOrigin: "a.example"},
		"origin of another scheme": {crypto.SettingOrigin: "ftp://a.example"},
		"origin with path":         {crypto.SettingOrigin: "https://a.example/social"},
		"origin with query":        {crypto.SettingOrigin: "https://a.example?x=1"},
		"origin with password":     {crypto.SettingOrigin: "https://u:p@a.example"},
		"halves that differ":       {crypto.SettingPrivateKey: base64.StdEncoding.EncodeToString(make([]byte, 64))},
		"seed only":                {crypto.SettingPrivateKey: base64.StdEncoding.EncodeToString(make([]byte, 32))},
		"foreign encryption key":   {crypto.SettingEncryptionKey: b[crypto.SettingEncryptionKey]},
		"no base64":                {crypto.SettingPrivateKey: "secret?"},
		"missing public key":       {crypto.SettingPublicKey: ""},
	} {
		env := vectorEnv(t, "A")
		for k, v := range change {
			env[k] = v
		}
		if _, err := crypto.LoadIdentity(getenv(env)); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), env[crypto.SettingPrivateKey]) {
			t.Errorf("%s: error repeats the private key", name)
		}
	}
}

func TestMissingConfigurationIsNamed(t *testing.T) {
	id, err := crypto.LoadIdentity(getenv(nil))
	if err != nil {
		t.Fatal(err)
	}
	ready := id.Ready()
	if !errors.Is(ready, crypto.ErrNotConfigured) {
		t.Fatalf("error %v, want ErrNotConfigured", ready)
	}
	for _, s := range []string{crypto.SettingOrigin, crypto.SettingPublicKey, crypto.SettingPrivateKey, crypto.SettingEncryptionKey, crypto.SettingEncryptionPrivate} {
		if !strings.Contains(ready.Error(), s) {
			t.Errorf("%s is not named in %v", s, ready)
		}
	}
	env := vectorEnv(t, "A")
	delete(env, crypto.SettingOrigin)
	if id, err = crypto.LoadIdentity(getenv(env)); err != nil {
		t.Fatal(err)
	}
	if got := id.Ready(); got == nil || strings.Contains(got.Error(), "FEDERATION_") {
		t.Errorf("the identity's error is %v, want one without FEDERATION_", got)
	}
}

func TestThePublicPartLoadsWithoutThePrivateKeys(t *testing.T) {
	env := vectorEnv(t, "A")
	whole, err := crypto.LoadIdentity(getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	for name := range env {
		if strings.Contains(name, "PRIVATE") {
			delete(env, name)
		}
	}
	got, err := crypto.LoadPublic(getenv(env))
	if err != nil || got != whole.Public || got.Ready() != nil {
		t.Errorf("%+v, %v, want %+v", got, err, whole.Public)
	}
	if none, err := crypto.LoadPublic(getenv(nil)); err != nil || !errors.Is(none.Ready(), crypto.ErrNotConfigured) || strings.Contains(none.Ready().Error(), "PRIVATE") {
		t.Errorf("%v, %v: what is not needed is asked for", none.Ready(), err)
	}
	env[crypto.SettingOrigin], env[crypto.SettingPublicKey], env[crypto.SettingEncryptionKey] = "a.example", "", "QQ=="
	_, err = crypto.LoadPublic(getenv(env))
	for _, s := range []string{"BETTER_AUTH_URL: ", "FEDERATION_PUBLIC_KEY: is missing", "FEDERATION_ENCRYPTION_PUBLIC_KEY: must be"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %v", s, err)
		}
	}
}

func TestGeneratedSettingsLoad(t *testing.T) {
	s, err := crypto.GenerateIdentity(rand.Reader, "https://a.example")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := s.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	id, err := crypto.LoadIdentity(getenv(env))
	if err != nil || id.Ready() != nil {
		t.Errorf("loading fails with %v and the identity is not ready for %v; want neither", err, id.Ready())
	}
	if _, err := crypto.GenerateIdentity(rand.Reader, "a.example/"); err == nil {
		t.Error("generated for a bad origin")
	}
	if _, err := crypto.GenerateIdentity(bytes.NewReader(nil), "https://a.example"); err == nil {
		t.Error("generated without entropy")
	}
	if _, err := s.WriteTo(failingWriter{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("write error lost: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestPrivateKeysAreNeverPrinted(t *testing.T) {
	env := vectorEnv(t, "A")
	id, err := crypto.LoadIdentity(getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "id", id, "wrapped", []any{id})
	asJSON, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		fmt.Sprintf("%v %+v %#v %s", id, id, id, id), fmt.Sprintf("%+v", struct{ X crypto.Identity }{id}),
		fmt.Sprintf("%+v %#v", struct{ x crypto.Identity }{id}, struct{ x crypto.Identity }{id}), log.String(), string(asJSON),
	} {
		for _, b := range [][]byte{mustDecode(t, env[crypto.SettingPrivateKey])[:32], mustDecode(t, env[crypto.SettingEncryptionPrivate])} {
			for _, form := range []string{base64.StdEncoding.EncodeToString(b)[:40], fmt.Sprint(b[:4])[1:10], fmt.Sprintf("%x", b)} {
				if strings.Contains(out, form) {
					t.Errorf("private key in %s", out)
				}
			}
		}
	}
}

func mustDecode(t *testing.T, s string) []byte {
	t.Helper()
	b, err := crypto.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
