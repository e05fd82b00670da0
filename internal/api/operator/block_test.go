package operator_test

import (
	"slices"
	"testing"

	"fedpost/client"
	"fedpost/internal/servers/circuit"
)

// TestAPastedURLBlocksItsHost: a URL copied from a browser names a host. It blocked nothing, and
// the answer said blocked.
func TestAPastedURLBlocksItsHost(t *testing.T) {
	for _, pasted := range []string{"https://bad.example", "https://bad.example/", "https://Bad.Example:443/@frida", "https://bad.example/about", "http://bad.example/"} {
		w := newWorld(t)
		var v client.Server
		w.must("POST", server(pasted)+"/block", `{"reason":"spam"}`, &v)
		if v.Phase != client.PhaseBlocked {
			t.Errorf("%s: %+v", pasted, v)
		}
		if v := w.server("bad.example"); v.Phase != client.PhaseBlocked || v.Why != "spam" {
			t.Errorf("blocking %s leaves the host %+v", pasted, v)
		}
		w.must("POST", server(pasted)+"/unblock", "", &v)
		if v := w.server("bad.example"); v.Phase != client.PhaseHealthy {
			t.Errorf("unblocking %s leaves the host %+v", pasted, v)
		}
	}
}

// TestWhatABlockAboveRefusesIsShownAsBlocked: a subdomain under a block of *.bad.example was
// shown as healthy, and so was an inbox of a blocked host.
func TestWhatABlockAboveRefusesIsShownAsBlocked(t *testing.T) {
	w := newWorld(t)
	var v client.Server
	w.must("PUT", server("a.b.bad.example"), `{"rateLimit":{"perMinute":6}}`, &v)
	w.must("PUT", server("good.example"), `{"rateLimit":{"perMinute":6}}`, &v)
	w.must("POST", server("*.bad.example")+"/block", `{"reason":"spam"}`, &v)
	for _, name := range []string{"a.b.bad.example", "unseen.bad.example", "unseen.bad.example:8443", "inbox:https://a.b.bad.example/inbox"} {
		if v := w.server(name); v.Phase != client.PhaseBlocked || v.Why != "blocked by *.bad.example: spam" {
			t.Errorf("%s is %s, %q", name, v.Phase, v.Why)
		}
	}
	if v := w.server("inbox:https://bad.example/inbox"); v.Phase != client.PhaseBlocked || v.Why != "blocked by bad.example: spam" {
		t.Errorf("an inbox of the host is %s, %q", v.Phase, v.Why)
	}
	for _, name := range []string{"good.example", "notbad.example", "example.org"} {
		if v := w.server(name); v.Phase != client.PhaseHealthy {
			t.Errorf("%s is %+v", name, v)
		}
	}
	var names []string
	for _, v := range w.listed(circuit.Blocked, "", 10) {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	if want := []string{"*.bad.example", "a.b.bad.example", "bad.example"}; !slices.Equal(names, want) {
		t.Errorf("listed as blocked are %v, want %v", names, want)
	}
	w.must("POST", server("*.bad.example")+"/unblock", "", &v)
	if v := w.server("a.b.bad.example"); v.Phase != client.PhaseHealthy || v.RateLimit == nil {
		t.Errorf("after the block: %+v", v)
	}
}

// TestAStarBlocksSubdomains, as a block of a domain does in Mastodon.
func TestAStarBlocksSubdomains(t *testing.T) {
	w := newWorld(t)
	var v client.Server
	w.must("POST", server("*.Bad.Example")+"/block", `{"reason":"spam"}`, &v)
	if v.Name != "*.bad.example" || v.Phase != client.PhaseBlocked || v.Why != "spam" {
		t.Errorf("the block is %+v; want *.bad.example blocked for spam", v)
	}
	if v := w.server("bad.example"); v.Phase != client.PhaseBlocked {
		t.Errorf("the host itself is %+v", v)
	}
	if all := w.listed(circuit.Blocked, "", 10); len(all) != 2 {
		t.Errorf("listed are %+v", all)
	}
	for _, act := range []string{"/pause", "/resume", "/check"} {
		w.refused(409, "subdomains", "POST", server("*.bad.example")+act, "")
	}
	w.refused(409, "subdomains", "PUT", server("*.bad.example"), `{"rateLimit":{"perMinute":6}}`)
	w.refused(400, "subdomains", "GET", "/v1/dead-letters?host=*.bad.example", "")
	for _, name := range []string{"*.example", "*.", "*", "*.bad.example:8443", "*.127.0.0.1", "*.*.example", "a.*.example", "*.bad..example"} {
		w.refused(400, "not usable", "POST", server(name)+"/block", "")
	}
	w.must("POST", server("*.bad.example")+"/unblock", "", &v)
	if all := w.listed(circuit.Blocked, "", 10); len(all) != 0 {
		t.Errorf("still blocked are %+v", all)
	}
}
