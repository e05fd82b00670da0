package httpsign_test

import (
	"crypto"
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse/rfc9421"
)

// TestASignatureThatAServerAsksForIsMade with its components, nonce and tag, and never covers
// less than a signature that nobody has asked for.
func TestASignatureThatAServerAsksForIsMade(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := httpsign.New(private, keyID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, asks string
		want       []string // parts of Signature-Input; nil: the server asks for what cannot be had
	}{
		{
			"everything", `one=("@method" "@path" "content-type");created;expires;keyid="` + keyID + `";alg="ed25519";nonce="n\"1";tag="t"`,
			[]string{"one=(", `"@path"`, `"content-type"`, `"@authority"`, `"content-digest"`, `;nonce="n\"1"`, `;tag="t"`, ";expires=", `;alg="ed25519"`},
		},
		{"nothing in particular", `sig=()`, []string{"sig=(", `"@target-uri"`}},
		{"the second can be made", `a=("@status"), b=("date");nonce="n"`, []string{"b=(", `"date"`, `;nonce="n"`}},
		{"any key", `a=();keyid`, []string{"a=("}},
		{"another key", `a=();keyid="https://other.example/#k"`, nil},
		{"another algorithm", `a=();alg="rsa-v1_5-sha256"`, nil},
		{"a component of the request that was answered", `a=("@method";req)`, nil},
		{"a header that is not there", `a=("x-none")`, nil},
		{"an unknown parameter", `a=();secret="x"`, nil},
		{"too long a nonce", `a=();nonce="` + strings.Repeat("n", 257) + `"`, nil},
		{"too many components", `a=(` + strings.Repeat(`"date" `, 21) + `)`, nil},
		{"no dictionary", `?`, nil},
		{"a single item", `a="@method"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			const body = `{"type":"Create"}`
			d := httpsign.DigestOf(body)
			r, err := http.NewRequest("POST", "https://social.example/inbox?q=1", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/activity+json")
			if err := s.Sign(r, httpsign.RFC9421, d, at); err != nil {
				t.Fatal(err)
			}
			asked, ok := s.Asked(http.Header{"Accept-Signature": {c.asks}}, r)
			if ok != (c.want != nil) {
				t.Fatalf("%s can be made: %t, want %t", c.asks, ok, c.want != nil)
			}
			if !ok {
				return
			}
			if err := s.SignAsked(r, asked, d, at); err != nil {
				t.Fatal(err)
			}
			input := r.Header.Get("Signature-Input")
			for _, part := range c.want {
				if !strings.Contains(input, part) {
					t.Errorf("Signature-Input is %s, want %s in it", input, part)
				}
			}
			sig, err := rfc9421.Verify(r, []byte(body), func(string) (crypto.PublicKey, error) { return public, nil })
			if err != nil || !sig.Covers("@method", "@target-uri", "@authority", "content-digest") {
				t.Errorf("verified: %v; it covers %q", err, sig.Components)
			}
		})
	}
}
