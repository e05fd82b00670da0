package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"fedpost/client"
)

func TestServersAreSteered(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	t.run([]string{"servers", "list"}, "none\n")
	t.run([]string{"servers", "show", "a.example"}, "phase     healthy")
	t.run([]string{"servers", "block", "a.example", "--reason", "spam"}, "phase     blocked", "why       spam")
	t.run([]string{"servers", "list", "--phase", "blocked"}, "SERVER", "a.example  blocked")
	t.run([]string{"servers", "unblock", "a.example"}, "healthy")
	t.run([]string{"servers", "pause", "a.example", "--for", "2d"}, "paused", "until")
	t.run([]string{"servers", "pause", "a.example", "--until", "2126-11-21T08:00:00Z"}, "2126-11-21 08:00:00Z")
	t.run([]string{"servers", "list"}, "a.example  paused", "  2126-11-21")
	t.run([]string{"servers", "resume", "a.example"}, "healthy")
	t.run([]string{"servers", "check", "a.example"}, "healthy")
	t.run([]string{"servers", "limit", "a.example", "60", "--burst", "5"}, "60/min, 5 at once")
	if out := t.run([]string{"servers", "limit", "a.example", "0"}); strings.Contains(out, "/min") {
		t.Errorf("not lifted:\n%s", out)
	}
	key := strings.Repeat("A", 43) + "="
	t.run([]string{"servers", "pin", "https://peer.example", "--public-key", key, "--encryption-key", key}, "signing key", key)
	t.run([]string{"servers", "block", "https://peer.example"}, "sipher", "blocked")
	t.run([]string{"servers", "list", "--protocol", "sipher"}, "https://peer.example")
	out := t.run([]string{"servers", "list", "--json"})
	var all []client.Server
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 3 { // peer.example is blocked as a host, too
		t.Errorf("%v: %s", err, out)
	}

	t.run([]string{"servers", "block", "bad.example", "--subdomains"}, "*.bad.example", "blocked")
	t.run([]string{"servers", "show", "www.bad.example"}, "blocked by *.bad.example", "next      nothing: deliveries fail until \"servers unblock\"")
	t.run([]string{"servers", "unblock", "*.bad.example", "--subdomains"}, "*.bad.example")
	t.run([]string{"servers", "show", "www.bad.example"}, "healthy")
	t.fails("409 Conflict", "servers", "pause", "https://peer.example")
	t.fails("no host name", "servers", "show", "a b")
	t.fails("can't be used together", "servers", "pause", "a.example", "--for", "1h", "--until", "2126-11-21T08:00:00Z")
}

// TestAServerShowsHowMuchWaitsForItAndWhatIsTriedNext, and when.
func TestAServerShowsHowMuchWaitsForItAndWhatIsTriedNext(tt *testing.T) {
	tt.Parallel()
	t := serverWith(tt, func(*settings) {})
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"servers", "show", "a.example"}, "waiting   0 deliveries")
	t.run([]string{"servers", "pause", "a.example", "--until", "2126-11-21T08:00:00Z"})
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", "https://a.example/1", "--to", "https://a.example/2", "--expires-in", "7d"}, "2 recipients")
	t.until("2 deliveries\n", "servers", "show", "a.example")
	t.run([]string{"servers", "show", "a.example"}, "next      the pause ends at 2126-11-21 08:00:00Z, then what waits is sent\n")
	t.run([]string{"servers", "show", "*.a.example"}, "healthy")
	var s client.Server
	if err := json.Unmarshal([]byte(t.run([]string{"servers", "show", "a.example", "--json"})), &s); err != nil || !s.Parked {
		t.Errorf("the server is %+v, error %v; want it parked", s, err)
	}
}

func TestWhatIsTriedNextIsSaidInEachPhase(t *testing.T) {
	at := time.Date(2126, 11, 21, 8, 0, 0, 0, time.UTC)
	for phase, want := range map[client.Phase][2]string{
		client.PhaseHealthy:    {"", ""},
		client.PhaseUnhealthy:  {"a probe at 2126-11-21 08:00:00Z, then one delivery on trial", "a probe, once a delivery waits"},
		client.PhaseExhausted:  {"a probe at 2126-11-21 08:00:00Z, then one delivery on trial", "a probe, once a delivery waits"},
		client.PhaseHalfOpen:   {"one delivery on trial; another at 2126-11-21 08:00:00Z", "one delivery on trial"},
		client.PhaseRecovering: {"what waits is sent, more each minute, from 2126-11-21 08:00:00Z", "what waits is sent, more each minute"},
		client.PhasePaused:     {"the pause ends at 2126-11-21 08:00:00Z, then what waits is sent", `nothing: the pause lasts until "servers resume"`},
		client.PhaseGone:       {"deliveries are tried again from 2126-11-21 08:00:00Z", `nothing: deliveries fail until "servers resume"`},
		client.PhaseBlocked:    {`nothing: deliveries fail until "servers unblock"`, `nothing: deliveries fail until "servers unblock"`},
	} {
		if got := next(client.Server{Phase: phase, NextCheckAt: at, Until: at}); got != want[0] {
			t.Errorf("%s with a time: %q", phase, got)
		}
		if got := next(client.Server{Phase: phase}); got != want[1] {
			t.Errorf("%s without: %q", phase, got)
		}
	}
	if got := next(client.Server{Phase: client.PhaseHealthy, Parked: true, NextCheckAt: at}); got != "what waits is sent at the limited rate, from 2126-11-21 08:00:00Z" {
		t.Errorf("healthy with a limit: %q", got)
	}
	if got := amount(10_000, true); got != "more than 10000 deliveries" {
		t.Errorf("many: %q", got)
	}
}
