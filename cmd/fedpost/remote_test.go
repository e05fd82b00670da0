package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"fedpost/client"
	"fedpost/internal/app/local"
	"fedpost/internal/testkit/e2e"
)

const (
	keyID = "https://social.example/users/frida#main-key"
	token = "a token of these tests"
)

// terminal runs commands as a shell would, against one server.
type terminal struct {
	*testing.T
	url string
}

// try runs a command line and returns what it prints.
func (t terminal) try(args ...string) (string, error) {
	t.Helper()
	l := commandLines.Get().(*commandLine)
	defer commandLines.Put(l)
	l.out.Reset()
	l.exit = func(int) { t.Errorf("%q ended the process", args) }
	k, err := l.parse(append(args, "--url", t.url, "--token", token))
	if err != nil {
		return "", err
	}
	k.BindTo(t.Context(), (*context.Context)(nil))
	err = k.Run(slog.New(slog.DiscardHandler))
	return l.out.String(), err
}

// commandLine is a parser of command lines that keeps what commands print.
type commandLine struct {
	parser *kong.Kong
	out    bytes.Buffer
	exit   func(int)
}

func (l *commandLine) parse(args []string) (*kong.Context, error) {
	if err := kong.Visit(l.parser.Model, forgotten); err != nil {
		return nil, err
	}
	return l.parser.Parse(args)
}

// commandLines are used again: making a parser takes longer than most commands.
var commandLines = sync.Pool{New: func() any {
	var l commandLine
	var err error
	if l.parser, err = parser(new(commands), screen{w: &l.out}, kong.Exit(func(code int) { l.exit(code) })); err != nil {
		panic(err)
	}
	return &l
}}

// forgotten resets a node of a parser's model to its state before the parser read a command line;
// kong itself resets the values.
func forgotten(n kong.Visitable, next kong.Next) error {
	switch n := n.(type) {
	case *kong.Node:
		n.Active = false
	case *kong.Value:
		n.Set, n.Active = false, false
	}
	return next(nil)
}

// run runs a command line that has to succeed, and checks what it prints.
func (t terminal) run(args []string, says ...string) string {
	t.Helper()
	out, err := t.try(args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	for _, s := range says {
		if !strings.Contains(out, s) {
			t.Errorf("%q prints\n%s\nwhich lacks %q", args, out, s)
		}
	}
	return out
}

// fails runs a command line that has to fail with words.
func (t terminal) fails(says string, args ...string) {
	t.Helper()
	out, err := t.try(args...)
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("%q: error %v, want %q; prints %s", args, err, says, out)
	}
}

// onServer starts a whole fedpost that gives up at the first failure.
func onServer(t *testing.T) terminal {
	t.Helper()
	return serverWith(t, func(s *settings) {
		tries, park := 1, false
		s.Retry.Tries, s.Retry.Park = &tries, &park
	})
}

// serverWith starts a whole fedpost with changed settings.
func serverWith(t *testing.T, change func(*settings)) terminal {
	t.Helper()
	f, err := start(t.Context(), t.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, true, change, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stop(nil, 10*time.Second); err != nil {
			t.Error(err)
		}
	})
	return terminal{t, f.server.URL}
}

// until runs a command line again until it prints something.
func (t terminal) until(says string, args ...string) (out string) {
	t.Helper()
	e2e.Await(t, 30*time.Second, fmt.Sprintf("%q to print %q", args, says), func() (bool, string) {
		out = t.run(args)
		return strings.Contains(out, says), out
	})
	return out
}

func (t terminal) file(name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const note = "{\n  \"type\": \"Create\", \"actor\": \"https://social.example/users/frida\", \"object\": {\"content\": \"<p>&</p>\"}\n}\n"

func TestAnActivityIsSentSeenDyingAndRetried(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	bodies := make(chan string, 10)
	var mended atomic.Bool
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !mended.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		bodies <- string(b)
	}))
	defer inbox.Close()

	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"}, keyID+" (ed25519)", "BEGIN PUBLIC KEY")
	t.run([]string{"keys", "show", keyID}, "BEGIN PUBLIC KEY")
	out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/a,b", "--delay", "0s", "--expires-in", "24h"}, " queued, 1 recipient\n")
	id, _, _ := strings.Cut(out, " ")
	if got := <-bodies; got != strings.TrimSpace(note) {
		t.Errorf("delivered %q", got)
	}
	t.until(id+": done (1 dead)", "status", id)
	t.run([]string{"retry", id, "--state", "failed"}, id+": 0 retried: no recipient that was asked for has failed or is dead\n")
	t.run([]string{"dead", "list"}, "DIED", inbox.URL+"/a,b", "Create", "exhausted", "500")
	t.run([]string{"dead", "list", "--host", "a.example"}, "none")
	t.run([]string{"stats"}, "dead-ordered", "today, UTC", "1 recipient accepted", "1 given up")
	mended.Store(true)
	t.run([]string{"dead", "retry", "--since", "1h"}, "1 retried\n")
	<-bodies
	t.until(id+": done (1 delivered)", "status", id)
	t.run([]string{"dead", "retry", "--activity", id}, "0 retried\n")
	t.fails("fedpost answered 400", "dead", "retry", "--id", "nonsense")
	t.run([]string{"dead", "drop", "--activity", id}, "0 dropped\n")
	t.run([]string{"dead", "drop", "--since", "1h", "--json"}, `"dropped": 0`)

	var s client.Stats
	if err := json.Unmarshal([]byte(t.run([]string{"stats", "--json"})), &s); err != nil || s.Counts["attempts"] != 2 {
		t.Errorf("stats are %+v, error %v; want 2 attempts", s, err)
	}
}

func TestWhatRefusedIsRetried(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	var mended atomic.Bool
	inbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer inbox.Close()
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", inbox.URL + "/1", "--to", inbox.URL + "/2"}, "2 recipients\n")
	id, _, _ := strings.Cut(out, " ")
	t.until(id+": done (2 failed)", "status", id)
	if body := t.run([]string{"status", id, "--body"}); body != note {
		t.Errorf("the activity is printed as %q, want %q", body, note)
	}
	t.run([]string{"activities", "list", "--state", "failed"}, id, "2 failed")
	if out := t.run([]string{"activities", "list", "--state", "dead"}); out != "none\n" {
		t.Errorf("dead activities: %s", out)
	}
	mended.Store(true)
	t.run([]string{"retry", id, "--inbox", inbox.URL + "/2"}, id+": 1 retried\n")
	t.until(id+": done (1 delivered, 1 failed)", "status", id)
	var done client.RetriedActivity
	if err := json.Unmarshal([]byte(t.run([]string{"retry", id, "--json"})), &done); err != nil || done.ID != id || done.Retried != 1 {
		t.Errorf("retry prints %+v, error %v; want 1 retried of %s", done, err, id)
	}
	t.until(id+": done (2 delivered)", "status", id)
	t.fails("404 Not Found", "retry", "nonsense")
	t.fails("must be one of", "retry", id, "--state", "queued")
}

func TestAnActivityIsStopped(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	out := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/1", "--to", "https://a.example/2", "--delay", "2d"}, " queued, 2 recipients\n")
	id, _, _ := strings.Cut(out, " ")
	t.run([]string{"status", id, "--limit", "1"}, id+": queued (2 queued)", "a.example/1", "The first 1; there may be more: --limit.")
	var s client.Status
	if err := json.Unmarshal([]byte(t.run([]string{"status", id, "--json"})), &s); err != nil || s.ID != id || len(s.Recipients) != 2 {
		t.Errorf("status prints %+v, error %v; want 2 recipients of %s", s, err, id)
	}
	t.run([]string{"cancel", id}, id+": cancelled (2 cancelled)\n")
	t.fails("404 Not Found", "cancel", "nonsense")
	actor, _, _ := strings.Cut(keyID, "#")
	for range 2 {
		t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/1", "--delay", "2d"})
	}
	t.run([]string{"cancel", "--actor", actor, "--type", "Create", "--since", "1h"}, "activities cancelled: 2, finished before: 1\n")
	t.fails("say which", "cancel")
	t.fails("not both", "cancel", id, "--actor", actor)
}

// TestAStatusFollowsItsPages, however many recipients there are.
func TestAStatusFollowsItsPages(tt *testing.T) {
	t, asked := canned(tt, `{"id":"X","status":"done","counts":{"delivered":2},"recipients":[{"inbox":"https://a.example/inbox","state":"delivered","attempts":1}],"nextCursor":"more"}`)
	if out := t.run([]string{"status", "X", "--limit", "1001"}, "X: done (2 delivered)\n", "The first 1001"); strings.Count(out, "a.example") != 1001 {
		t.Errorf("printed\n%s", out)
	}
	if want := "GET /v1/activities/X?cursor=more1001&limit=1 "; *asked != want {
		t.Errorf("asked %q last, want %q", *asked, want)
	}
}

// TestFollowsAreListed, with their state.
func TestFollowsAreListed(tt *testing.T) {
	tt.Parallel()
	onServer(tt).run([]string{"follows"}, "none\n")
	t, asked := canned(tt, `{"follows":[{"id":"F1","followerId":"a","followingId":"b","followerServerUrl":"https://us.example","followingServerUrl":"https://peer.example","accepted":true,"acknowledged":true,"recordedAt":"2026-11-21T08:00:00Z","updatedAt":"2026-11-21T08:00:00Z"}]}`)
	t.run([]string{"follows", "--limit", "5"}, "F1  accepted  a         b          https://peer.example  2026-11-21 08:00:00Z\n")
	if *asked != "GET /v1/follows?limit=5 " {
		t.Errorf("asked %q", *asked)
	}
	t.run([]string{"follows", "--json"}, `"followerId": "a"`)
}

// newPrivateKey is a signing key in PEM.
func newPrivateKey() (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(make([]byte, 32)))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
}

func TestAKeyIsStoredFromAFile(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	text, err := newPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	out := t.run([]string{"keys", "put", keyID, t.file("key.pem", text)}, "(ed25519)", "BEGIN PUBLIC KEY")
	if strings.Contains(out, "PRIVATE") {
		t.Errorf("the private half is printed:\n%s", out)
	}
	t.run([]string{"keys", "list"}, "TYPE", "ed25519  "+keyID)
	public := t.run([]string{"keys", "show", keyID})
	if out := t.run([]string{"keys", "rotate", keyID}, "(ed25519)", "BEGIN PUBLIC KEY", "Every process signs with it from "); strings.Contains(out, public) {
		t.Errorf("the key was not replaced:\n%s", out)
	}
	t.run([]string{"keys", "rotate", keyID, "--type", "rsa", "--json"}, `"type": "rsa"`, "effectiveBy")
	t.fails("404 Not Found", "keys", "rotate", "https://social.example/nobody#key")
	sent := t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/inbox", "--delay", "1h"}, "queued")
	t.fails("needed by 1 waiting deliveries", "keys", "delete", keyID)
	id, _, _ := strings.Cut(sent, " ")
	t.run([]string{"cancel", id}, "1 cancelled")
	t.run([]string{"keys", "delete", keyID, "--json"}, `"waiting": 0`)
	t.fails("404 Not Found", "keys", "delete", keyID, "--force")
	t.run([]string{"keys", "list", "--json"}, "[]")
	t.fails("no such file", "keys", "put", keyID, filepath.Join(t.TempDir(), "none.pem"))
	t.fails("404 Not Found", "keys", "show", "https://social.example/nobody#key")
}

func TestWhatIsWrongOnACommandLineIsSaid(tt *testing.T) {
	t := terminal{tt, "nonsense"}
	t.fails("is no address", "stats")
	t.fails("nothing to send", "send", t.file("empty", " \n"), "--to", "https://a.example/inbox")
	t.fails("text is not JSON: line 2: ", "send", t.file("text", "{\n\"a\": hello}\n"), "--to", "https://a.example/inbox")
	t.fails("--to", "send", t.file("note", note))
	t.fails("say which", "dead", "retry")
	t.fails("say which", "dead", "drop")
	t.fails("--since yesterday is neither", "dead", "list", "--since", "yesterday")
	t.url = "http://" + freeAddress(tt)
	t.fails("no answer from fedpost at "+t.url+": dial tcp "+strings.TrimPrefix(t.url, "http://")+": connect: connection refused", "stats")
}

// canned answers every request with a text and records it.
func canned(t *testing.T, text string) (terminal, *string) {
	t.Helper()
	asked, pages := new(string), 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/activities" { // what status asks besides
			_, _ = io.WriteString(w, `{"activities":[]}`)
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*asked = r.Method + " " + r.URL.String() + " " + string(b)
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("authorization %q", got)
		}
		pages++
		if _, err := io.WriteString(w, strings.Replace(text, `"nextCursor":"more"`, fmt.Sprintf(`"nextCursor":"more%d"`, pages), 1)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return terminal{t, s.URL}, asked
}

// TestWhatStrangersAnswerDoesNotReachTheTerminalAsItIs: neither colours nor titles nor further
// lines.
func TestWhatStrangersAnswerDoesNotReachTheTerminalAsItIs(tt *testing.T) {
	t, _ := canned(tt, `{"deadLetters":[{"id":"x","inbox":"https://a.example/inbox","lastError":"\u001b[2J\u202eevil\nline\u0007","diedAt":"2026-11-21T08:00:00Z"}]}`)
	out := t.run([]string{"dead", "list"})
	if strings.ContainsAny(out, "\x1b\x07\u202e") || strings.Count(out, "\n") != 3 {
		t.Errorf("printed %q", out)
	}
}

func TestASipherJobIsSentByteForByte(tt *testing.T) {
	t, asked := canned(tt, `{"id":"X","status":"queued","recipients":1}`)
	t.run([]string{
		"send", t.file("payload", "{ \"method\" :\"FEDERATE_POST\"}\n"), "--to", "https://peer.example/posts", "--job", "deliver-post",
		"--server-url", "https://peer.example", "--delay", "1000000s",
	}, "X queued, 1 recipient\n")
	_, body, _ := strings.Cut(*asked, "/v1/activities ")
	var sent map[string]any
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	if sent["payload"] != "{ \"method\" :\"FEDERATE_POST\"}\n" || sent["protocol"] != "sipher" || sent["delay"] != "PT1000000S" || sent["activity"] != nil {
		t.Errorf("sent %s", body)
	}
}

func TestAListStopsAtItsLimitAndSaysSo(tt *testing.T) {
	t, asked := canned(tt, `{"servers":[{"server":"a.example","phase":"gone"}],"nextCursor":"more"}`)
	t.run([]string{"servers", "list", "--limit", "3"}, "The first 3")
	if want := "GET /v1/servers?cursor=more2&limit=1&waiting=true "; *asked != want {
		t.Errorf("asked %q last, want %q", *asked, want)
	}
}

// TestRequestsToAPIGatewayAreSigned instead of carrying a token. The region cannot be read from
// the address of an API with a domain of its own. No other region need be configured.
func TestRequestsToAPIGatewayAreSigned(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	for _, c := range []struct{ url, region, to, authorization string }{
		{"https://abc.execute-api.eu-central-1.amazonaws.com/live/", "", "https://abc.execute-api.eu-central-1.amazonaws.com/live/healthz", "/eu-central-1/execute-api/aws4_request"},
		{"https://api.social.example/fedpost", "eu-west-3", "https://api.social.example/fedpost/healthz", "/eu-west-3/execute-api/aws4_request"},
		{"https://api.social.example/fedpost", "", "https://api.social.example/fedpost/healthz", "Bearer " + token},
	} {
		var to, authorization string
		api, err := reach{URL: c.url, AWSRegion: c.region, Token: token, Transport: roundTrip(func(r *http.Request) (int, string) {
			to, authorization = r.URL.String(), r.Header.Get("Authorization")
			return http.StatusOK, `{"status":"ok"}`
		})}.client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
		if to != c.to || !strings.Contains(authorization, c.authorization) || strings.Contains(authorization, token) != (c.authorization == "Bearer "+token) {
			t.Errorf("%s in %q: asks %s with %q", c.url, c.region, to, authorization)
		}
	}
}

// TestNoMistakeShowsAPasswordOrAToken, in an address or a token that is refused.
func TestNoMistakeShowsAPasswordOrAToken(t *testing.T) {
	for want, r := range map[string]reach{
		"--url or FEDPOST_URL has a user name or a password":     {URL: "http://frida:hunter2@127.0.0.1:8080"},
		"--token or FEDPOST_API_TOKEN is not a token of fedpost": {URL: defaultURL, Token: "hunter2\nX-Other: 1"},
	} {
		_, err := r.client(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
