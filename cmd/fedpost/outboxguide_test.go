package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"fedpost/client"
	"fedpost/internal/testkit/binary"
	"fedpost/internal/testkit/e2e"
	"fedpost/internal/testkit/engines/pgtest"
)

// application is a database as an application has it, with a role of its own that has the
// grants of docs/running.md.
type application struct {
	*testing.T
	operator, role string // URLs
}

func newApplication(t *testing.T) application {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	name := "app_" + strings.ToLower(rand.Text()[:12])
	pgtest.Exec(t, "CREATE DATABASE "+name)
	pgtest.Exec(t, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() {
		pgtest.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)")
		pgtest.Exec(t, "DROP ROLE "+name)
	})
	u.Path = "/" + name
	a := application{T: t, operator: u.String()}
	u.User = url.User(name)
	a.role = u.String()
	return a
}

// do runs statements as the operator, in which %s is the role.
func (a application) do(statements string) {
	a.Helper()
	c, err := pgx.Connect(context.Background(), a.operator)
	if err == nil {
		_, err = c.Exec(context.Background(), strings.ReplaceAll(statements, "%s", c.Config().Database), pgx.QueryExecModeSimpleProtocol)
		_ = c.Close(context.Background())
	}
	if err != nil {
		a.Fatalf("%s: %v", statements, err)
	}
}

// killable starts a program that prints a line which begins with a word. It returns the rest of
// the line, and what kills the program as kill -9 does.
func killable(t *testing.T, env []string, word string, command ...string) (rest string, kill func()) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), new(strings.Builder)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it was killed
		}
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), word+" "); found {
			return rest, kill
		}
	}
	kill()
	t.Fatalf("%q ends without a line %q: %s", command, word, cmd.Stderr)
	return "", nil
}

// TestTheOutboxGuideRunsOnPostgreSQL runs the programs of docs/guide that publish a post and its
// activity in one transaction. A post that is published twice is rolled back the second time. The
// program is killed after COMMIT while no fedpost runs; the fedpost that accepts the row is killed
// before it records that; the next one makes no second activity of it.
func TestTheOutboxGuideRunsOnPostgreSQL(t *testing.T) {
	pgtest.URL(t)
	programs := t.TempDir()
	fedpost := filepath.Join(programs, "fedpost")
	itself(t, fedpost)
	for name, command := range map[string]func(t *testing.T) []string{
		"go": func(t *testing.T) []string {
			program := filepath.Join(programs, "outbox")
			if err := binary.Build(program, "../../docs/guide/outbox", nil); err != nil {
				t.Fatal(err)
			}
			return []string{program}
		},
		"typescript": func(t *testing.T) []string {
			return []string{"node", filepath.Join(filepath.Dir(given(t, "FEDPOST_GUIDE_SCRIPT")), "outbox.js")}
		},
		"python": func(t *testing.T) []string {
			program, err := filepath.Abs("../../docs/guide/outbox.py")
			if err != nil {
				t.Fatal(err)
			}
			return []string{given(t, "FEDPOST_GUIDE_PYTHON"), program}
		},
	} {
		t.Run(name, func(t *testing.T) { runOutboxGuide(t, fedpost, command(t)) })
	}
}

func runOutboxGuide(t *testing.T, fedpost string, command []string) {
	a, follower, data := newApplication(t), newFollower(t), t.TempDir()
	up := func() (at terminal, kill func()) {
		t.Helper()
		address, kill := killable(t, []string{"DATABASE_URL=" + a.operator, "FEDPOST_API_TOKEN=" + token}, "fedpost listening on",
			fedpost, "up", "--listen", "127.0.0.1:0", "--allow-private", "--data", data)
		return terminal{t, address}, kill
	}
	first, kill := up()
	first.run([]string{"keys", "generate", keyID})
	kill()
	a.do(`CREATE TABLE public.posts (id text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, content text);
		GRANT INSERT ON public.posts TO %s;
		GRANT USAGE ON SCHEMA fedpost TO %s;
		GRANT INSERT (request, deduplication_key) ON fedpost.outbox TO %s`)

	const notes = "https://social.example/notes/"
	publish := func(note string) []string {
		return append(command[:len(command):len(command)], a.role, note, follower.url)
	}
	for n := range 3 {
		_, kill := killable(t, nil, "committed", publish(fmt.Sprint(notes, n))...)
		kill()
	}
	again := publish(notes + "0")
	if out, err := exec.Command(again[0], again[1:]...).CombinedOutput(); err == nil || !strings.Contains(string(out), "posts_pkey") {
		t.Fatalf("a post that is there already is published again: %v: %s", err, out)
	}

	// Rows can be locked and not changed while the table is locked so.
	lock, err := pgx.Connect(t.Context(), a.operator)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close(context.Background()) }()
	if _, err := lock.Exec(t.Context(), `BEGIN; LOCK TABLE fedpost.outbox IN SHARE MODE`, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	second, kill := up()
	e2e.Await(t, 30*time.Second, "three activities to be done", func() (bool, string) {
		done := len(activitiesOf(second, "done"))
		return done == 3, fmt.Sprint(done)
	})
	kill()
	if _, err := lock.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	third, kill := up()
	defer kill()
	if states := third.outboxStates(); states["accepted"] != 3 || len(states) != 1 {
		t.Errorf("rows by state: %v, want three accepted", states)
	}
	if all := activitiesOf(third, ""); len(all) != 3 {
		t.Errorf("there are %d activities, want three: %+v", len(all), all)
	}
	if n, most := follower.count(); n != 3 || most != 1 {
		t.Errorf("%d activities came, one of them %d times; want three, once each", n, most)
	}
}

// activitiesOf lists the activities of a state.
func activitiesOf(t terminal, state string) (all []client.FoundActivity) {
	t.Helper()
	api, err := client.New(t.url, client.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	for a, err := range api.Activities(t.Context(), client.ActivityQuery{State: state}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}
