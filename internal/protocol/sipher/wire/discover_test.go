package wire_test

import (
	"errors"
	"strings"
	"testing"

	"fedpost/internal/protocol/sipher/wire"
)

func TestDiscoveryNeedsBothKeysOf32Bytes(t *testing.T) {
	good := compactJSON(t, vectors(t).Discover.Get)
	b := vectors(t).server(t, "B")
	for name, c := range map[string]struct {
		old, with string
		ok        bool
	}{
		"as it is":                {"", "", true},
		"unpadded key":            {b.PublicKey, strings.TrimRight(b.PublicKey, "="), true},
		"url-safe key":            {b.PublicKey, strings.NewReplacer("+", "-", "/", "_").Replace(b.PublicKey), true},
		"no peers":                {`"peers"`, `"people"`, true},
		"no signing key":          {`"publicKey"`, `"key"`, false},
		"signing key in capitals": {`"publicKey"`, `"PublicKey"`, false},
		"no encryption key":       {`"encryptionPublicKey"`, `"key"`, false},
		"short key":               {b.PublicKey, "QQ==", false},
		"key no base64":           {b.PublicKey, "???", false},
		"key a number":            {`"` + b.PublicKey + `"`, "7", false},
		"empty key":               {b.EncryptionKey, "", false},
		"not an object":           {good, "[]", false},
		"null":                    {good, "null", false},
		"not JSON":                {good, "<html>", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wire.ParseDiscovery([]byte(strings.Replace(good, c.old, c.with, 1)))
			if c.ok && (err != nil || got.PublicKey != b.PublicKey || got.EncryptionKey != b.EncryptionKey) {
				t.Errorf("the answer is %+v, error %v; want the keys of B", got, err)
			}
			if !c.ok && !errors.Is(err, wire.ErrDiscovery) {
				t.Errorf("the answer is %+v, error %v; want ErrDiscovery", got, err)
			}
		})
	}
}

func TestRegistrationIsValidated(t *testing.T) {
	good := compactJSON(t, vectors(t).Discover.Register)
	for name, c := range map[string]struct{ old, with string }{
		"another method":   {`"REGISTER"`, `"FEDERATE"`},
		"no method":        {`"method"`, `"m"`},
		"no url":           {`"url":"https://a.example",`, ``},
		"empty url":        {`https://a.example`, ``},
		"url a number":     {`"https://a.example"`, `7`},
		"no signing key":   {`"publicKey"`, `"p"`},
		"short key":        {vectors(t).server(t, "A").EncryptionKey, "QQ=="},
		"not an object":    {good, `"REGISTER"`},
		"not JSON":         {good, `REGISTER`},
		"several at once":  {good, "[" + good + "]"},
		"trailing garbage": {good, good + "x"},
	} {
		if got, err := wire.ParseRegistration([]byte(strings.Replace(good, c.old, c.with, 1))); !errors.Is(err, wire.ErrRegistration) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(vectors(f).Discover.Get))
	f.Add([]byte(`{"publicKey":"","encryptionPublicKey":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := wire.ParseDiscovery(b)
		if err != nil {
			if !errors.Is(err, wire.ErrDiscovery) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if len(c.PublicKey) != 44 || len(c.EncryptionKey) != 44 {
			t.Errorf("%q: %+v", b, c)
		}
	})
}

func FuzzRegistration(f *testing.F) {
	f.Add([]byte(vectors(f).Discover.Register))
	f.Add([]byte(`{"method":"REGISTER","url":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := wire.ParseRegistration(b)
		if err != nil {
			if !errors.Is(err, wire.ErrRegistration) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		body, err := wire.RegistrationBody(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := wire.ParseRegistration([]byte(body)); err != nil || again != c {
			t.Errorf("%q: %+v, then %+v, %v", b, c, again, err)
		}
	})
}
