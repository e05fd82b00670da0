package e2e

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/testkit/fediverse"
)

// kindsOfKeys signs with keys of each form that can be stored or made.
func kindsOfKeys(t *testing.T, w *World) {
	const base = "https://social.example/users/%C3%BCnal#"
	key := fediverse.NewKeys()[fediverse.RSAKeyID].(*rsa.PrivateKey)
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	stored := map[string]string{
		base + "pkcs1": pkcs1, base + "pkcs8": PrivatePEM(t, fediverse.RSAKeyID), base + "ed25519": PrivatePEM(t, fediverse.Ed25519KeyID),
	}
	ids := map[string]string{}
	for id, private := range stored {
		ids[id] = w.AddKey(id, private).Type
	}
	for _, kind := range []string{"rsa", "ed25519"} {
		k, err := w.GenerateKey(t.Context(), base+"made-"+kind, kind)
		if err != nil {
			t.Fatal(err)
		}
		w.know(k)
		ids[k.ID] = k.Type
	}
	for id, kind := range ids {
		r := w.Remote()
		name := strings.TrimPrefix(id, base)
		want := "rsa"
		if strings.Contains(name, "ed25519") {
			want = "ed25519"
		}
		if kind != want {
			t.Errorf("key %s is of type %q, want %q", name, kind, want)
		}
		w.Ends(w.Accept(submission(note(name), id, r.URL("/inbox"))).ID, map[string]int{"delivered": 1})
		accepted(t, r, noteID(name))
		for _, p := range r.Accepted() {
			if p.KeyID != id {
				t.Errorf("%s: signed by %q", name, p.KeyID)
			}
			if kind == "rsa" && p.Form != httpsign.Cavage {
				t.Errorf("%s: signed in form %s", name, p.Form)
			}
		}
	}
	// What is sent after a key was replaced is signed with the new one.
	w.AddKey(base+"pkcs8", PrivatePEM(t, fediverse.Ed25519KeyID))
	r := w.Remote()
	w.Ends(w.Accept(submission(note("replaced"), base+"pkcs8", r.URL("/inbox"))).ID, map[string]int{"delivered": 1})
	if got := r.Accepted(); len(got) != 1 || len(r.Posts()) != 1 {
		t.Errorf("after a key was replaced: %d of %d POSTs were accepted", len(got), len(r.Posts()))
	}

	var p *client.Problem
	if _, err := w.PutKey(t.Context(), "https://social.example/users/ünal#key", pkcs1); !errors.As(err, &p) || p.Status != http.StatusBadRequest {
		t.Errorf("an id that no signature could name: %v", err)
	}
	for _, id := range []string{base + "pkcs1", base + "made-rsa"} {
		var k client.Key
		if err := w.Do(t.Context(), "GET", "/v1/keys/"+escape(id), nil, &k); err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprintf("%+v", k); strings.Contains(said, "PRIVATE") || k.ID != id {
			t.Errorf("GET of key %s: %s", id, said)
		}
	}
}
