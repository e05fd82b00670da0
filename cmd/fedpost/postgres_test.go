package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/local"
	"fedpost/internal/testkit/engines/pgtest"
)

// TestHalfAConfigurationForPostgreSQLIsRefused: an empty file in place of the database would not be
// noticed for a while. The test needs no server.
func TestHalfAConfigurationForPostgreSQLIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set  []string
		says string
	}{
		"a schema alone":       {[]string{"DATABASE_SCHEMA", "fedpost"}, "DATABASE_SCHEMA is set without DATABASE_URL"},
		"a sealing key alone":  {[]string{"SEALING_KEY", "a2V5"}, "SEALING_KEY is not 32 bytes in base64"},
		"a key without a base": {[]string{"SEALING_KEY", "a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2V5a2U="}, "SEALING_KEY is set without DATABASE_URL"},
		"AWS, too":             {[]string{"DATABASE_URL", "postgres://me:geheim@127.0.0.1:1/x", "TABLE_NAME", "fedpost"}, "DATABASE_URL asks for PostgreSQL, and TABLE_NAME for AWS"},
		"a name for nothing":   {[]string{"DATABASE_URL", "postgres://me:geheim@127.0.0.1:1/x", "DATABASE_SCHEMA", "Fed Post"}, "DATABASE_SCHEMA is \"Fed Post\""},
		"nobody answers":       {[]string{"DATABASE_URL", "postgres://me:geheim@127.0.0.1:1/x"}, "open the PostgreSQL database: "},
		"not a URL of its own": {[]string{"DATABASE_URL", "mysql://me:geheim@127.0.0.1/x"}, "open the PostgreSQL database: "},
	} {
		t.Run(name, func(t *testing.T) {
			operator(t, c.set...)
			_, err := start(t.Context(), t.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("%v, want %q and no password", err, c.says)
			}
		})
	}
}

func TestDataFoldersAreNotMistakenForADatabase(t *testing.T) {
	operator(t, "DATABASE_URL", "postgres://me@127.0.0.1:1/x")
	dir := t.TempDir()
	for _, args := range [][]string{{"backup", filepath.Join(dir, "b.tar"), "--data", dir}, {"restore", filepath.Join(dir, "b.tar"), "--data", filepath.Join(dir, "x")}, {"check", "--data", dir}} {
		if out, err := telling(t, args...); err == nil || !strings.Contains(out, "pg_dump") {
			t.Errorf("%s: %v: %s", args[0], err, out)
		}
	}
}

// serving starts fedpost as up does. The returned function stops it.
func serving(t *testing.T, folder string) (terminal, func()) {
	t.Helper()
	t.Setenv("FEDPOST_API_TOKEN", token)
	f, err := start(t.Context(), folder, local.ListenConfig{Listen: "127.0.0.1:0"}, true, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.engine, "PostgreSQL, database ") {
		t.Errorf("it says that it runs on %q", f.engine)
	}
	return terminal{t, f.server.URL}, func() {
		if err := f.stop(nil, 10*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// TestSeveralProcessesOnOneDatabaseAreOneFedpost: what is sent to one is known to the other,
// and an export has it from the database.
func TestSeveralProcessesOnOneDatabaseAreOneFedpostOnPostgreSQL(t *testing.T) {
	operator(t, "DATABASE_URL", pgtest.URL(t), "DATABASE_SCHEMA", pgtest.Schema(t))
	dir := t.TempDir()
	one, stopOne := serving(t, dir)
	other, stopOther := serving(t, dir)
	one.run([]string{"keys", "generate", keyID})
	other.run([]string{"keys", "show", keyID}, "BEGIN PUBLIC KEY")
	other.run([]string{"servers", "block", "bad.example", "--reason", "spam"})
	one.run([]string{"servers", "show", "bad.example"}, "spam")

	// A process writes its counts every minute, and when it ends: the other one has them then.
	inbox := newFollower(t)
	for n, at := range []terminal{one, other} {
		at.run([]string{"send", at.file("like.json", fmt.Sprintf(`{"id":"https://social.example/users/frida/%d","type":"Like","actor":"https://social.example/users/frida"}`, n)), "--key", keyID, "--to", inbox.url})
	}
	for _, a := range append(activitiesOf(one, ""), activitiesOf(other, "")...) {
		one.run([]string{"status", a.ID, "--wait"}, "1 delivered")
	}
	if n, most := inbox.count(); n != 2 || most != 1 {
		t.Errorf("%d activities came, one of them %d times; want two, once each", n, most)
	}

	secret, file := secretFile(t, passphraseText), filepath.Join(t.TempDir(), "fedpost.age")
	if out, err := telling(t, "export", file, "--data", dir, "--passphrase-file", secret); err != nil || !strings.Contains(out, "1 key, 1 server") || !strings.Contains(out, "PostgreSQL, database") {
		t.Errorf("export: %v: %s", err, out)
	}
	stopOne()
	other.run([]string{"stats"}, "2 delivered, 2 recipients accepted")
	other.run([]string{"keys", "show", keyID}, "BEGIN PUBLIC KEY")
	stopOther()

	t.Setenv("DATABASE_SCHEMA", pgtest.Schema(t))
	if out, err := telling(t, "import", file, "--data", t.TempDir(), "--passphrase-file", secret); err == nil || !strings.Contains(out, "start fedpost up") {
		t.Errorf("import into nothing: %v: %s", err, out)
	}
	another := t.TempDir()
	there, stop := serving(t, another)
	if out, err := telling(t, "import", file, "--data", another, "--passphrase-file", secret); err != nil || !strings.Contains(out, "imported into PostgreSQL") {
		t.Errorf("import: %v: %s", err, out)
	}
	there.run([]string{"keys", "show", keyID}, "BEGIN PUBLIC KEY")
	stop()
}
