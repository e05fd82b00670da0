package api_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"fedpost/internal/keys"
)

func privatePEM(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKeysAreStoredMadeAndShownButNeverTheirPrivateHalf(t *testing.T) {
	w := newWorld(t)
	path := "/v1/keys/" + url.PathEscape(keyID)
	secret := privatePEM(t)
	put := w.do("PUT", path, `{"privateKeyPem":`+quote(t, secret)+`}`)
	if put.Status != http.StatusCreated || put.Header.Get("Location") != path {
		t.Fatalf("answered %d %s, %v", put.Status, put.Body, put.Header)
	}
	made := w.do("POST", "/v1/keys", `{"id":"made"}`)
	if made.Status != http.StatusCreated || made.json(t)["type"] != "rsa" {
		t.Fatalf("answered %d %s", made.Status, made.Body)
	}
	shown := w.do("GET", path, "")
	if shown.Status != http.StatusOK || !sameKey(t, shown, put) {
		t.Errorf("shown %d %s, put %s", shown.Status, shown.Body, put.Body)
	}
	got := shown.json(t)
	if got["id"] != keyID || got["type"] != "ed25519" || !strings.HasPrefix(got["publicKeyPem"].(string), "-----BEGIN PUBLIC KEY-----") || len(got) != 3 {
		t.Errorf("shown %s", shown.Body)
	}
	middle := strings.Split(secret, "\n")[1]
	for what, text := range map[string]string{"answers": put.Body + made.Body + shown.Body, "log": w.log.String()} {
		if strings.Contains(text, "PRIVATE") || strings.Contains(text, middle) {
			t.Errorf("the private key is in the %s", what)
		}
	}
}

// TestAKeyIsTheSameInPEMAndAsJWK, for RFC 8037's key (A.1) and an RSA key as WebCrypto exports it.
func TestAKeyIsTheSameInPEMAndAsJWK(t *testing.T) {
	w := newWorld(t)
	signer, err := rsa.GenerateKey(rand.Reader, keys.MinRSA)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := jose.JSONWebKey{Key: signer}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		private any
		jwk     string
	}{
		{signer, strings.Replace(string(jwk), "{", `{"ext":true,"key_ops":["sign"],"alg":"RS256",`, 1)},
		{ed25519.NewKeyFromSeed(unbase64(t, "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")), `{"kty":"OKP","crv":"Ed25519","d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`},
	} {
		der, err := x509.MarshalPKCS8PrivateKey(c.private)
		if err != nil {
			t.Fatal(err)
		}
		inPEM := w.do("PUT", "/v1/keys/k", `{"privateKeyPem":`+quote(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))+`}`)
		asJWK := w.do("PUT", "/v1/keys/k", `{"privateKeyJwk": `+c.jwk+`}`)
		if asJWK.Status != http.StatusCreated || !sameKey(t, asJWK, inPEM) {
			t.Errorf("%T: in PEM %s, as JWK %d %s", c.private, inPEM.Body, asJWK.Status, asJWK.Body)
		}
	}
	if strings.Contains(w.log.String(), "nWGxne") {
		t.Error("a private key is in the log")
	}
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKeyIDsInPathsAreTakenWhole(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{keyID, "plain", "a%2Fb", "a%b", "a?b=c&d", "a+b", "..a", "a;b", "x:y@z"} {
		path := "/v1/keys/" + url.PathEscape(id)
		put := w.do("PUT", path, `{"privateKeyPem":`+quote(t, privatePEM(t))+`}`)
		if put.Status != http.StatusCreated || put.json(t)["id"] != id {
			t.Errorf("%q: %d %s", id, put.Status, put.Body)
			continue
		}
		// What Location names is the key.
		if got := w.do("GET", put.Header.Get("Location"), ""); !sameKey(t, got, put) {
			t.Errorf("%q is not at %s: %s", id, put.Header.Get("Location"), got.Body)
		}
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	w := newWorld(t).withKey()
	path := "/v1/keys/x"
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		pointer, says      string
	}{
		"no PEM":           {"PUT", path, `{}`, 400, "#/privateKeyPem", "missing"},
		"PEM no string":    {"PUT", path, `{"privateKeyPem":7}`, 400, "#/privateKeyPem", "not a string"},
		"bad PEM":          {"PUT", path, `{"privateKeyPem":"topsecret"}`, 400, "#/privateKeyPem", "no PEM block"},
		"JWK no object":    {"PUT", path, `{"privateKeyJwk":"topsecret"}`, 400, "#/privateKeyJwk", "not an object"},
		"bad JWK":          {"PUT", path, `{"privateKeyJwk":{"kty":"OKP","crv":"Ed25519","d":"topsecret"}}`, 400, "#/privateKeyJwk", "does not parse"},
		"public JWK":       {"PUT", path, `{"privateKeyJwk":{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}`, 400, "#/privateKeyJwk", "public key"},
		"JWK to encrypt":   {"PUT", path, `{"privateKeyJwk":{"kty":"oct","k":"dG9wc2VjcmV0"}}`, 400, "#/privateKeyJwk", "neither RSA nor Ed25519"},
		"PEM and JWK":      {"PUT", path, `{"privateKeyPem":"x","privateKeyJwk":{}}`, 400, "#/privateKeyJwk", "give one"},
		"unknown field":    {"PUT", path, `{"privateKeyPem":"x","id":"y"}`, 400, "#/id", "not a field"},
		"bad id in path":   {"PUT", "/v1/keys/a%20b", `{"privateKeyPem":` + quote(t, privatePEM(t)) + `}`, 400, "#/id", "' '"},
		"no id":            {"POST", "/v1/keys", `{}`, 400, "#/id", "missing"},
		"empty id":         {"POST", "/v1/keys", `{"id":""}`, 400, "#/id", "empty"},
		"another type":     {"POST", "/v1/keys", `{"id":"x","type":"dsa"}`, 400, "#/type", "one of"},
		"both":             {"POST", "/v1/keys", `{"id":7,"type":"dsa","x":1}`, 400, "#/x", "not a field"},
		"there is one":     {"POST", "/v1/keys", `{"id":"` + keyID + `"}`, 409, "", "PUT"},
		"unknown":          {"GET", "/v1/keys/none", "", 404, "", "no key of this id"},
		"bad id for a get": {"GET", "/v1/keys/a%20b", "", 400, "#/id", "' '"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused(t, w.do(c.method, c.path, c.body), c.status, c.says)
			if c.pointer != "" && !strings.Contains(got[c.pointer], c.says) {
				t.Errorf("faults %v", got)
			}
			if strings.Contains(w.log.String(), "topsecret") {
				t.Error("what was given is in the log")
			}
		})
	}
}

// sameKey reports whether two answers show the same key. The answer to PUT also says when
// the key is used everywhere.
func sameKey(t *testing.T, shown, put response) bool {
	a, b := shown.json(t), put.json(t)
	return a["id"] == b["id"] && a["type"] == b["type"] && a["publicKeyPem"] == b["publicKeyPem"]
}
