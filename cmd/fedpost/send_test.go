package main

import (
	"strings"
	"testing"
)

// TestRecipientsComeFromAFile, each as the API takes them.
func TestRecipientsComeFromAFile(tt *testing.T) {
	t, asked := canned(tt, `{"id":"x","status":"queued","recipients":3}`)
	activity := t.file("note.json", note)
	t.run([]string{"send", activity, "--key", keyID, "--to-file", t.file("all", "https://a.example/inbox\r\n\n{\"inbox\":\"https://b.example/1\",\"sharedInbox\":\"https://b.example/inbox\"}\n https://c.example/inbox")}, "3 recipients")
	if want := `"recipients":["https://a.example/inbox",{"inbox":"https://b.example/1","sharedInbox":"https://b.example/inbox"},"https://c.example/inbox"]`; !strings.Contains(*asked, want) {
		t.Errorf("sends %s, want %s", *asked, want)
	}
	t.fails("line 2, is neither an inbox nor an object", "send", activity, "--key", keyID, "--to-file", t.file("bad", "https://a.example/inbox\n{\"inbux\":1}\n"))
	t.fails("there is no recipient in", "send", activity, "--key", keyID, "--to-file", t.file("empty", "\n"))
	t.fails("read recipients", "send", activity, "--key", keyID, "--to-file", "none")
	t.fails("standard input", "send", "--key", keyID, "--to-file", "-")
	t.fails("can't be used together", "send", activity, "--key", keyID, "--to", "https://a.example/inbox", "--to-file", "x")
}

// TestADryRunSendsNothing and says what would be sent.
func TestADryRunSendsNothing(tt *testing.T) {
	t := onServer(tt)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	list := t.file("all", `{"inbox":"https://b.example/1","sharedInbox":"https://b.example/inbox"}
{"inbox":"https://b.example/2","sharedInbox":"https://b.example/inbox"}
https://169.254.169.254/inbox
`)
	out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to-file", list, "--dry-run"},
		"https://b.example/inbox", "stands for 2 recipients", "REFUSED: address 169.254.169.254 is not allowed", "3 recipients, distinct inboxes: 2; nothing was sent\n")
	if strings.Contains(out, "queued") {
		t.Errorf("prints %s", out)
	}
	t.run([]string{"stats"}, "0 recipients accepted")
	t.fails("names no key", "send", t.file("note.json", note), "--key", "none", "--to", "https://a.example/inbox", "--dry-run")
}
