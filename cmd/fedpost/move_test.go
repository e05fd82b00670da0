package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/app/local"
	"fedpost/internal/app/move"
)

// secretFile is a file with a passphrase, which costs little in tests.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	cost := passphraseWork
	t.Cleanup(func() { passphraseWork = cost })
	passphraseWork = 2
	file := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const passphraseText = "correct horse battery staple"

// telling runs a command that talks to no server, and returns all of its output, with its log at
// the lowest level.
func telling(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	_, err := logging(t, &out, slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), args...)
	if err != nil {
		out.WriteString(err.Error())
	}
	return out.String(), err
}

// TestAFedpostIsMovedByAnExportOfItWhileItRuns: the other one signs with the same key, and has the
// settings of servers. Nothing that is printed, logged or in the file shows a key or a secret.
func TestAFedpostIsMovedByAnExportOfItWhileItRuns(tt *testing.T) {
	operator(tt)
	signed := make(chan string, 1)
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			tt.Error(err)
		}
		signed <- r.Header.Get("Signature-Input") + r.Header.Get("Signature")
	}))
	defer inbox.Close()
	secret, file := secretFile(tt, passphraseText), filepath.Join(tt.TempDir(), "fedpost.age")
	var said strings.Builder
	tell := func(args ...string) (string, error) {
		tt.Helper()
		out, err := telling(tt, append(args, "--passphrase-file", secret)...)
		said.WriteString(out)
		return out, err
	}

	here := tt.TempDir()
	t, stop := running(tt, here)
	private, err := newPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	t.run([]string{"keys", "put", keyID, t.file("key.pem", private)})
	public := t.run([]string{"keys", "show", keyID})
	t.run([]string{"servers", "block", "bad.example", "--reason", "spam"})
	hook := t.run([]string{"webhooks", "put", "mine", inbox.URL}, "whsec_")
	if out, err := tell("export", file, "--data", here); err != nil || !strings.Contains(out, "1 key, 1 server, 1 webhook") || !strings.Contains(out, "SQLite") {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if out, err := tell("export", file, "--data", here); err == nil || !strings.Contains(out, "file already exists") {
		t.Errorf("over another: %v: %s", err, out)
	}
	if out, err := tell("import", file, "--data", here); err == nil || !strings.Contains(out, "the data folder is in use") {
		t.Errorf("into a running one: %v: %s", err, out)
	}
	stop()

	there := filepath.Join(tt.TempDir(), "new", "data")
	if out, err := tell("import", file, "--data", there, "--dry-run"); err != nil || !strings.Contains(out, "not imported yet") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(there); err == nil {
		t.Error("a dry run makes a data folder")
	}
	if out, err := tell("import", file, "--data", there); err != nil || !strings.Contains(out, "imported into SQLite, "+there) {
		t.Fatalf("%v: %s", err, out)
	}
	var report move.Report
	if out, err := tell("import", file, "--data", there, "--json"); err != nil || json.Unmarshal([]byte(out), &report) != nil || report["keys"] != (move.Done{Same: 1}) {
		t.Errorf("%v: %s", err, out)
	}
	t, stop = running(tt, there)
	defer stop()
	if got := t.run([]string{"keys", "show", keyID}); got != public {
		t.Errorf("the key is\n%s\nwas\n%s", got, public)
	}
	t.run([]string{"servers", "show", "bad.example"}, "blocked", "spam")
	t.run([]string{"webhooks", "list"}, "mine", inbox.URL)
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/inbox"}, "queued")
	if s := <-signed; !strings.Contains(s, keyID) {
		t.Errorf("signed %q", s)
	}

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	said.Write(text)
	_, whsec, _ := strings.Cut(hook, "whsec_")
	whsec, _, _ = strings.Cut(whsec, "\n")
	for what, s := range map[string]string{"key": strings.Split(private, "\n")[1], "secret of the webhook": strings.TrimSpace(whsec), "passphrase": passphraseText} {
		if len(s) < 20 {
			t.Fatalf("no %s to look for: %q", what, s)
		}
		if strings.Contains(said.String(), s) {
			t.Errorf("the %s is shown", what)
		}
	}
}

// TestNothingIsTouchedByAnImportThatCannotBe: it makes no folder and no sealing key.
func TestNothingIsTouchedByAnImportThatCannotBe(tt *testing.T) {
	operator(tt)
	secret, file := secretFile(tt, passphraseText), filepath.Join(tt.TempDir(), "fedpost.age")
	here, there := tt.TempDir(), filepath.Join(tt.TempDir(), "new")
	t, stop := running(tt, here)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	stop()
	if out, err := telling(tt, "export", file, "--data", here, "--passphrase-file", secret); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for says, args := range map[string][]string{
		"wrong passphrase":        {file, "--passphrase-file", secretFile(tt, passphraseText+"!")},
		"not a complete export":   {secret, "--passphrase-file", secret},
		"the passphrase is empty": {file, "--passphrase-file", secretFile(tt, "")},
		"more than 4096 bytes":    {file, "--passphrase-file", secretFile(tt, strings.Repeat("x", 5000))},
		"no terminal to ask":      {file},
	} {
		if out, err := telling(tt, append([]string{"import", "--data", there}, args...)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v: %s", says, err, out)
		}
	}
	if _, err := os.Stat(there); err == nil {
		t.Error("there is a data folder")
	}
	for says, args := range map[string][]string{
		"has 5 characters: take 12": {"--data", here, "--passphrase-file", secretFile(tt, "short")},
		"there is none":             {"--data", there, "--passphrase-file", secret},
	} {
		other := filepath.Join(tt.TempDir(), "other.age")
		if out, err := telling(tt, append([]string{"export", other}, args...)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v: %s", says, err, out)
		}
		if left, err := os.ReadDir(filepath.Dir(other)); err != nil || len(left) != 0 {
			t.Errorf("%q leaves %v, %v", says, left, err)
		}
	}
}

// TestWhatDiffersIsNamedByAnImport.
func TestWhatDiffersIsNamedByAnImport(tt *testing.T) {
	operator(tt)
	secret, file := secretFile(tt, passphraseText), filepath.Join(tt.TempDir(), "fedpost.age")
	var folders [2]string
	for i := range folders {
		folders[i] = tt.TempDir()
		t, stop := running(tt, folders[i])
		t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
		stop()
	}
	if out, err := telling(tt, "export", file, "--data", folders[0], "--passphrase-file", secret); err != nil {
		tt.Fatalf("%v: %s", err, out)
	}
	if out, err := telling(tt, "import", file, "--data", folders[1], "--passphrase-file", secret); err == nil || !strings.Contains(out, "key "+keyID+"; --replace overwrites what differs") {
		tt.Errorf("%v: %s", err, out)
	}
	if out, err := telling(tt, "import", file, "--data", folders[1], "--passphrase-file", secret, "--replace"); err != nil || !strings.Contains(out, "REPLACED") {
		tt.Errorf("%v: %s", err, out)
	}
}

// TestASealingKeyOfAnotherFolderIsNoticed before a backup is needed, when it is made, and when
// it is restored; and an export is not made of keys that do not open.
func TestASealingKeyOfAnotherFolderIsNoticed(tt *testing.T) {
	operator(tt)
	here, file := tt.TempDir(), filepath.Join(tt.TempDir(), "b.tar")
	t, stop := running(tt, here)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	stop()
	key := filepath.Join(here, local.SealingKey)
	good, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := telling(tt, "check", "--data", here); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(key, bytes.Repeat([]byte{1}, len(good)), 0o600); err != nil {
		t.Fatal(err)
	}
	const says = "not the sealing key that the stored keys were sealed with"
	for _, args := range [][]string{
		{"check"}, {"check", "--json"}, {"backup", file}, {"export", file, "--passphrase-file", secretFile(tt, passphraseText)},
	} {
		if out, err := telling(tt, append(args, "--data", here)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
		if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 0 {
			t.Errorf("%q leaves %v, %v", args, left, err)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if out, err := telling(tt, "check", "--data", here); err == nil || !strings.Contains(out, "the sealing key is missing") {
		t.Errorf("%v: %s", err, out)
	}
	elsewhere := filepath.Join(tt.TempDir(), "sealing.key")
	if err := os.WriteFile(elsewhere, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := telling(tt, "check", "--data", here, "--sealing-key", elsewhere); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
