package main

import (
	"strings"
	"testing"

	"fedpost/internal/testkit/sipherpeer"
)

func TestOurSipherKeysAreChangedAtEachServerThatAnswers(tt *testing.T) {
	t := onServer(tt)
	us, up, down := sipherpeer.New(tt, "https://social.example"), sipherpeer.Start(tt, ""), sipherpeer.New(tt, "http://127.0.0.1:1")
	for name, value := range us.Settings() {
		tt.Setenv(name, value)
	}
	up.Know(us.URL, us.PublicKey(), us.EncryptionKey())
	for _, p := range []*sipherpeer.Peer{up, down} {
		t.run([]string{"servers", "pin", p.URL, "--public-key", p.PublicKey(), "--encryption-key", p.EncryptionKey()})
	}
	made := func(origin string) string {
		var out strings.Builder
		if err := (sipherKeys{Origin: origin}).Run(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	next := made(us.URL)
	file := t.file("next.env", next)

	out, err := t.try("keys", "rotate-sipher", file, "--allow-private")
	if err == nil || !strings.Contains(err.Error(), "1 of 2 servers have not confirmed") || !strings.Contains(out, "not changed  ") || !strings.Contains(out, "connection refused") {
		t.Errorf("with one that is down: %v, prints\n%s", err, out)
	}
	if signing, _, _ := up.Knows(us.URL); signing == us.PublicKey() || !strings.Contains(next, signing) {
		t.Errorf("the one that is up has key %s, want that of\n%s", signing, next)
	}
	t.fails("1 of 1 servers", "keys", "rotate-sipher", file, "--allow-private", "--at", down.URL)
	t.fails("there is no such server", "keys", "rotate-sipher", file, "--at", "https://nobody.example")
	t.fails("has to hold two new key pairs", "keys", "rotate-sipher", t.file("other.env", made("https://other.example")))
	t.fails("sipher identity is not configured", "keys", "rotate-sipher", t.file("empty.env", ""))
}
