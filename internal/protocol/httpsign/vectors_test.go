package httpsign

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"fedpost/internal/testkit/fediverse/rfc9421"
)

// TestRFC9421Vectors runs the RFC's own requests: the signature base has to be
// the published one, and the published signature has to come out (Ed25519 and
// PKCS#1 v1.5 are deterministic) or verify (PSS is not).
func TestRFC9421Vectors(t *testing.T) {
	var file struct {
		Keys    map[string]string
		Vectors []struct {
			Section, Alg, Key, Method, URL, Body, Params, Signature string
			Headers                                                 map[string]string
			Base                                                    []string
		}
	}
	load(t, "testdata/rfc9421.json", &file)
	if len(file.Vectors) < 7 {
		t.Fatalf("%d vectors", len(file.Vectors))
	}
	for _, v := range file.Vectors {
		t.Run(v.Section+" "+v.Alg, func(t *testing.T) {
			r := request(t, v.Method, v.URL, v.Headers)
			want := strings.Join(v.Base, "\n")

			// The signer covers no parameterised component, the verifier does.
			if !strings.Contains(v.Params, "@query-param") {
				got, err := rfc9421Base(r, covered(v.Params), v.Params)
				if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("signature base\n%s\nwant\n%s", got, want)
				}
			}
			switch v.Alg {
			case "hmac-sha256":
				secret, err := base64.StdEncoding.DecodeString(file.Keys[v.Key])
				if err != nil {
					t.Fatal(err)
				}
				mac := hmac.New(sha256.New, secret)
				mac.Write([]byte(want))
				if got := base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != v.Signature {
					t.Errorf("HMAC %s, want %s", got, v.Signature)
				}
				return
			case "ed25519", "rsa-v1_5-sha256":
				s, err := New(parseKey(t, file.Keys[v.Key]).(crypto.Signer), v.Key)
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.sign(want)
				if err != nil {
					t.Fatal(err)
				}
				if got != v.Signature {
					t.Errorf("signature %s, want %s", got, v.Signature)
				}
			}

			r.Header.Set("Signature-Input", "x="+v.Params)
			r.Header.Set("Signature", "x=:"+v.Signature+":")
			keys := func(id string) (crypto.PublicKey, error) {
				if id != v.Key {
					return nil, errors.New("unexpected key id " + id)
				}
				return publicOf(parseKey(t, file.Keys[id])), nil
			}
			if _, err := rfc9421.Verify(r, []byte(v.Body), keys); err != nil {
				t.Errorf("the published signature does not verify: %v", err)
			}
			r.Method = "PUT"
			r.Host = "other.example"
			if len(v.Base) > 1 {
				if _, err := rfc9421.Verify(r, []byte(v.Body), keys); err == nil {
					t.Error("verifies for another method and host")
				}
			}
		})
	}
}

// TestCavageVectors runs the draft's Appendix C: bases and signatures exactly.
func TestCavageVectors(t *testing.T) {
	var file struct {
		Key, Method, URL, Body string
		Headers                map[string]string
		Vectors                []struct {
			Section, Signature string
			Covered, Base      []string
		}
	}
	load(t, "testdata/cavage.json", &file)
	if len(file.Vectors) != 3 {
		t.Fatalf("%d vectors", len(file.Vectors))
	}
	s, err := New(parseKey(t, file.Key).(crypto.Signer), "Test")
	if err != nil {
		t.Fatal(err)
	}
	if got := DigestOf(file.Body).Header(); got != file.Headers["Digest"] {
		t.Errorf("Digest %s, want %s", got, file.Headers["Digest"])
	}
	for _, v := range file.Vectors {
		t.Run(v.Section, func(t *testing.T) {
			r := request(t, file.Method, file.URL, file.Headers)
			base, err := cavageBase(r, r.URL.RequestURI(), v.Covered)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Join(v.Base, "\n"); base != want {
				t.Errorf("signing string\n%s\nwant\n%s", base, want)
			}
			got, err := s.sign(base)
			if err != nil {
				t.Fatal(err)
			}
			if got != v.Signature {
				t.Errorf("signature %s, want %s", got, v.Signature)
			}
		})
	}
}

func load(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// request makes a request as a client holds it: Host apart from the header.
func request(t *testing.T, method, url string, headers map[string]string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		if k == "Host" {
			r.Host = v
			continue
		}
		r.Header.Set(k, v)
	}
	return r
}

var quoted = regexp.MustCompile(`"([^"]*)"`)

func covered(params string) []string {
	list, _, _ := strings.Cut(params, ")")
	var names []string
	for _, m := range quoted.FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}

func parseKey(t *testing.T, text string) any {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM in %q", text)
	}
	var (
		key any
		err error
	)
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func publicOf(key any) crypto.PublicKey {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return &key.PublicKey
	case ed25519.PrivateKey:
		return key.Public()
	}
	return key
}
