package operator_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/api/operator/registry"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/servers/circuit"
)

var rules = circuit.Default()

func down(s circuit.State) circuit.State {
	return s.Fault(rules, outcome.ConnRefused, "connection refused", start)
}

func (w *world) server(name string) (v client.Server) {
	w.Helper()
	w.must("GET", server(name), "", &v)
	return v
}

func TestAHostIsShownAsTheWorkersSeeIt(t *testing.T) {
	w := newWorld(t)
	if v := w.server("Nobody.Example:443"); v.Name != "nobody.example" || v.Phase != client.PhaseHealthy || v.Protocol != "activitypub" {
		t.Errorf("a host without a record is %+v", v)
	}
	w.change(circuit.HostKey("down.example:8443"), func(s circuit.State) circuit.State { return down(s).Park(rules, start) })
	v := w.server("down.example:8443")
	if v.Phase != client.PhaseUnhealthy || v.Reason != "refused" || v.Why != "connection refused" || !v.DownSince.Equal(start) || !v.Parked ||
		!v.NextCheckAt.Equal(start.Add(time.Minute)) {
		t.Errorf("a host that is down is %+v", v)
	}
	w.change(circuit.HostKey("asks.example"), func(s circuit.State) circuit.State {
		return s.Throttle(rules, start.Add(time.Minute), "429", start)
	})
	if v := w.server("asks.example"); v.Phase != client.PhasePaused || !v.Until.Equal(start.Add(time.Minute)) {
		t.Errorf("a host that asked for a pause is %+v", v)
	}
	w.clock = start.Add(time.Minute)
	if v := w.server("asks.example"); v.Phase != client.PhaseHealthy {
		t.Errorf("when its pause is over, it is %+v", v)
	}
}

func TestAHostIsBlockedAndUnblocked(t *testing.T) {
	w := newWorld(t)
	var v client.Server
	for range 2 {
		w.must("POST", server("bad.example")+"/block", `{"reason":"spam"}`, &v)
		if v.Phase != client.PhaseBlocked || v.Why != "spam" {
			t.Errorf("blocked: %+v", v)
		}
	}
	if s := w.state(circuit.HostKey("bad.example")); s.Decision(w.clock.AddDate(1, 0, 0)) != circuit.Refuse || !s.Forget.IsZero() {
		t.Errorf("the block is not for good: %+v", s)
	}
	for _, act := range []string{"pause", "resume", "check"} {
		w.refused(http.StatusConflict, "unblock it first", "POST", server("bad.example")+"/"+act, "")
	}
	for range 2 {
		w.must("POST", server("bad.example")+"/unblock", "", &v)
		if v.Phase != client.PhaseHealthy {
			t.Errorf("unblocked: %+v", v)
		}
	}
	// Without a reason, and with what waits for it.
	w.change(circuit.HostKey("down.example"), func(s circuit.State) circuit.State { return down(s).Park(rules, start) })
	w.must("POST", server("down.example")+"/block", "", &v)
	if v.Phase != client.PhaseBlocked || !v.NextCheckAt.Equal(w.clock) {
		t.Errorf("what is parked does not fail: %+v", v)
	}
}

func TestAHostIsPausedAndResumed(t *testing.T) {
	w := newWorld(t)
	var v client.Server
	for body, until := range map[string]time.Time{
		"": {}, "{}": {}, `{"for":"PT2H","reason":"asked by mail"}`: start.Add(2 * time.Hour), `{"for":90}`: start.Add(90 * time.Second),
		`{"until":"2026-12-24T18:00:00+01:00"}`: time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC),
	} {
		w.must("POST", server("busy.example")+"/pause", body, &v)
		if v.Phase != client.PhasePaused || !v.Until.Equal(until) {
			t.Errorf("%s: %+v", body, v)
		}
		if s := w.state(circuit.HostKey("busy.example")); s.Accepts(w.clock.Add(time.Minute)) {
			t.Errorf("%s: it accepts", body)
		}
	}
	w.must("POST", server("busy.example")+"/resume", "", &v)
	if v.Phase != client.PhaseHealthy {
		t.Errorf("resumed: %+v", v)
	}
	for _, key := range []string{circuit.HostKey("down.example"), circuit.InboxKey("https://down.example/inbox")} {
		w.change(key, func(s circuit.State) circuit.State { return down(s).Park(rules, start) })
		name := strings.TrimPrefix(key, "host:")
		w.must("POST", server(name)+"/resume", "", &v)
		if v.Phase != client.PhaseRecovering || v.Name != name {
			t.Errorf("%s resumed: %+v", name, v)
		}
	}
}

// TestAServerIsProbedWhenAskedFor: the request for a check does not prove that the server works.
func TestAServerIsProbedWhenAskedFor(t *testing.T) {
	w := newWorld(t)
	key := circuit.HostKey("down.example")
	w.change(key, down)
	var v client.Server
	for range 2 {
		w.must("POST", server("down.example")+"/check", "", &v)
		if v.Phase != client.PhaseUnhealthy || !v.NextCheckAt.Equal(start) {
			t.Errorf("asked for: %+v", v)
		}
	}
	if s := w.state(key); s.Accepts(w.clock) {
		t.Error("it accepts before the probe")
	}
	before := w.state(key).Version
	w.must("POST", server("down.example")+"/check", "", &v)
	if w.state(key).Version != before {
		t.Error("asking again costs a write")
	}
	w.must("POST", server("fine.example")+"/check", "", &v)
	if found, err := w.store.Servers(t.Context(), circuit.HostKey("fine.example")); err != nil || len(found) > 0 {
		t.Errorf("asking for a healthy host makes a record: %v, %v", found, err)
	}
}

func TestAHostsRateLimitIsSetAndLifted(t *testing.T) {
	w := newWorld(t)
	var v client.Server
	w.must("PUT", server("slow.example"), `{"rateLimit":{"perMinute":60,"burst":3}}`, &v)
	if v.RateLimit == nil || *v.RateLimit != (client.RateLimit{PerMinute: 60, Burst: 3}) {
		t.Errorf("set: %+v", v.RateLimit)
	}
	if s := w.state(circuit.HostKey("slow.example")); s.Limited(w.clock.AddDate(1, 0, 0)) != 60 || !s.Forget.IsZero() {
		t.Errorf("workers do not see it: %+v", s)
	}
	limits, err := w.store.Limits(t.Context(), "slow.example")
	if l := limits["slow.example"]; err != nil || l.PerMinute != 60 || l.Burst != 3 {
		t.Errorf("stored %+v, %v", l, err)
	}
	if v := w.server("slow.example"); v.RateLimit == nil || v.RateLimit.PerMinute != 60 {
		t.Errorf("shown: %+v", v)
	}
	// A pause does not end it.
	w.must("POST", server("slow.example")+"/pause", "", &v)
	w.must("POST", server("slow.example")+"/resume", "", &v)
	if v.RateLimit == nil {
		t.Error("lifted by a pause")
	}
	w.must("PUT", server("slow.example"), `{}`, &v)
	if v.RateLimit != nil || w.state(circuit.HostKey("slow.example")).Limited(w.clock) != 0 {
		t.Errorf("not lifted: %+v", v)
	}
}

func TestServersAreListedByPhaseAndProtocolAndPage(t *testing.T) {
	w := newWorld(t)
	want := map[string]client.Phase{}
	for i := range 25 {
		name := fmt.Sprintf("h%d.example", i)
		key := circuit.HostKey(name)
		switch i % 5 {
		case 0:
			w.change(key, down)
			want[name] = client.PhaseUnhealthy
		case 1:
			w.change(key, func(s circuit.State) circuit.State { return s.Block(rules, "spam", start) })
			want[name] = client.PhaseBlocked
		case 2:
			w.change(key, func(s circuit.State) circuit.State { return s.ConfirmedGone(rules, "410", start) })
			want[name] = client.PhaseGone
		case 3:
			w.must("PUT", server(name), `{"rateLimit":{"perMinute":6}}`, new(client.Server))
			want[name] = client.PhaseHealthy
		case 4:
			name = "inbox:https://" + name + "/inbox"
			w.change(name, down)
			want[name] = client.PhaseUnhealthy
		}
	}
	for i := range 7 {
		url := fmt.Sprintf("https://s%d.example", i)
		w.register(url)
		want[url] = client.PhaseHealthy
	}
	if err := w.store.Sipher().MarkUnhealthy(t.Context(), "https://s3.example", peers.TimedOut, start); err != nil {
		t.Fatal(err)
	}
	want["https://s3.example"] = client.PhaseUnhealthy
	w.must("POST", server("https://blocked.example/only")+"/block", `{"reason":"abuse"}`, new(client.Server))
	want["https://blocked.example/only"] = client.PhaseBlocked

	for _, limit := range []int{1, 6, 1000} {
		for _, phase := range append(slices.Clone(registry.Phases), "") {
			for _, protocol := range []string{"", "activitypub", "sipher"} {
				got := map[string]client.Phase{}
				for _, v := range w.listed(phase, protocol, limit) {
					if _, twice := got[v.Name]; twice {
						t.Errorf("%s is listed twice", v.Name)
					}
					got[v.Name] = v.Phase
				}
				for name, p := range want {
					sipher := strings.HasPrefix(name, "https:")
					expected := (phase == "" || client.Phase(phase) == p) && (protocol == "" || (protocol == "sipher") == sipher)
					if g, ok := got[name]; ok != expected || ok && g != p {
						t.Errorf("phase %q, protocol %q, limit %d: %s is %q, listed %t", phase, protocol, limit, name, g, ok)
					}
				}
			}
		}
	}
	for _, v := range w.listed("", "", 1000) {
		if strings.HasPrefix(v.Name, "h3") && (v.RateLimit == nil || v.RateLimit.PerMinute != 6) {
			t.Errorf("%s is listed without its rate limit", v.Name)
		}
	}
}

func (w *world) listed(phase circuit.Phase, protocol string, limit int) (all []client.Server) {
	w.Helper()
	q := url.Values{"limit": {fmt.Sprint(limit)}}
	if phase != "" {
		q.Set("phase", string(phase))
	}
	if protocol != "" {
		q.Set("protocol", protocol)
	}
	for {
		var page struct {
			Servers    []client.Server `json:"servers"`
			NextCursor string          `json:"nextCursor"`
		}
		w.must("GET", "/v1/servers?"+q.Encode(), "", &page)
		if len(page.Servers) > limit {
			w.Fatalf("%d servers on a page of %d", len(page.Servers), limit)
		}
		all = append(all, page.Servers...)
		if page.NextCursor == "" {
			return all
		}
		q.Set("cursor", page.NextCursor)
	}
}

var key1, key2 = base64.StdEncoding.EncodeToString(make([]byte, 32)), base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

func (w *world) register(url string) {
	w.Helper()
	_, _, err := w.store.Sipher().Insert(w.Context(), peers.Server{
		URL: url, PublicKey: key1, EncryptionKey: key2, LastSeen: start, CreatedAt: start, UpdatedAt: start, IsHealthy: true,
	})
	if err != nil {
		w.Fatal(err)
	}
}

func TestASipherServerIsShownBlockedResumedAndChecked(t *testing.T) {
	w := newWorld(t)
	const peer = "https://peer.example"
	sipher := w.store.Sipher()
	// A URL that is no Sipher server's, such as one of a user, stands for its host.
	w.change(circuit.HostKey("peer.example"), down)
	for _, url := range []string{peer, peer + "/@frida"} {
		if v := w.server(url); v.Name != "peer.example" || v.Phase != client.PhaseUnhealthy {
			t.Errorf("%s is shown as %+v", url, v)
		}
	}
	for _, act := range []string{"check", "resume"} {
		var v client.Server
		if w.must("POST", server(peer)+"/"+act, "", &v); v.Name != "peer.example" {
			t.Errorf("%s of %s changes %s", act, peer, v.Name)
		}
	}
	w.register(peer)
	if v := w.server(peer); v.Phase != client.PhaseHealthy || v.Protocol != "sipher" || v.Keys == nil || v.Keys.Signing != key1 || v.Keys.Encryption != key2 {
		t.Errorf("registered: %+v", v)
	}
	var v client.Server
	w.must("POST", server(peer)+"/block", `{"reason":"spam"}`, &v)
	if b, err := sipher.Blocked(t.Context(), peer); v.Phase != client.PhaseBlocked || v.Why != "spam" || v.Keys == nil || err != nil || b == nil || b.Reason != "spam" {
		t.Errorf("blocked: %+v, %+v, %v", v, b, err)
	}
	for _, act := range []string{"resume", "check"} {
		w.refused(http.StatusConflict, "unblock it first", "POST", server(peer)+"/"+act, "")
	}
	w.must("POST", server(peer)+"/unblock", "", &v)
	if v.Phase != client.PhaseHealthy {
		t.Errorf("unblocked: %+v", v)
	}
	// A server without a record can be blocked in advance.
	w.must("POST", server("https://stranger.example")+"/block", "", &v)
	w.must("POST", server("https://stranger.example")+"/unblock", "", &v)
	if v := w.server("https://stranger.example"); v.Name != "stranger.example" {
		t.Errorf("a Sipher server is left: %+v", v)
	}
	// Another spelling is the same server.
	w.must("GET", server("https://Peer.example:0443/"), "", &v)
	if v.Name != peer {
		t.Errorf("another spelling of %s names %s", peer, v.Name)
	}

	if err := sipher.MarkUnhealthy(t.Context(), peer, peers.DNSBlocked, start); err != nil {
		t.Fatal(err)
	}
	later := peers.Check{ServerURL: peer, DueAt: start.Add(time.Hour)}
	if ok, err := sipher.ScheduleCheck(t.Context(), later); !ok || err != nil {
		t.Fatalf("scheduled %t, error %v; want true", ok, err)
	}
	// The scheduled check comes forward; then one is made where there is none.
	for range 2 {
		w.must("POST", server(peer)+"/check", "", &v)
		if v.Phase != client.PhaseUnhealthy || v.Reason != "DNS_BLOCKED" {
			t.Errorf("asked for: %+v", v)
		}
		due, err := sipher.DueChecks(t.Context(), start, 10)
		if err != nil || len(due) != 1 || due[0].ID() != later.ID() {
			t.Fatalf("due: %+v, %v", due, err)
		}
		if err := sipher.FinishCheck(t.Context(), due[0]); err != nil {
			t.Fatal(err)
		}
	}
	w.must("POST", server(peer)+"/resume", "", &v)
	if v.Phase != client.PhaseHealthy {
		t.Errorf("resumed: %+v", v)
	}
	for range peers.MaxChecks {
		if v.Phase == client.PhaseHealthy {
			if err := sipher.MarkUnhealthy(t.Context(), peer, peers.TimedOut, start); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sipher.CountCheck(t.Context(), peer, peers.MaxChecks, start); err != nil {
			t.Fatal(err)
		}
		v = w.server(peer)
	}
	if v.Phase != client.PhaseExhausted || v.Checks != peers.MaxChecks {
		t.Errorf("given up: %+v", v)
	}
}

func TestASipherServersNewKeysArePinnedByTheOperator(t *testing.T) {
	w := newWorld(t)
	const peer = "https://peer.example"
	w.register(peer)
	err := w.store.Sipher().RecordKeyChange(t.Context(), peers.KeyChange{
		URL: peer, PublicKey: key2, EncryptionKey: key1, Via: peers.Registered, First: start, Last: start, Count: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	v := w.server(peer)
	if v.RefusedKeys == nil || v.RefusedKeys.Signing != key2 || v.RefusedKeys.Count != 1 || v.Keys.Signing != key1 {
		t.Errorf("refused: %+v", v)
	}
	if all := w.listed("", "sipher", 10); len(all) != 1 || all[0].RefusedKeys == nil {
		t.Errorf("listed: %+v", all)
	}
	w.must("PUT", server(peer), fmt.Sprintf(`{"publicKey":%q,"encryptionPublicKey":%q}`, key2, key1), &v)
	if v.RefusedKeys != nil || v.Keys.Signing != key2 || v.Keys.Encryption != key1 {
		t.Errorf("pinned: %+v", v)
	}
}

func TestWhatIsWrongWithARequestAboutServersIsSaid(t *testing.T) {
	w := newWorld(t)
	const inbox = "inbox:https://a.example/inbox"
	for _, c := range []struct {
		status                   int
		says, method, path, body string
	}{
		{400, "phase is \\\"sick\\\"", "GET", "/v1/servers?phase=sick", ""},
		{400, "protocol is", "GET", "/v1/servers?protocol=smtp", ""},
		{400, "between 1 and 1000", "GET", "/v1/servers?limit=0", ""},
		{400, "no query parameter \\\"status\\\"", "GET", "/v1/servers?status=blocked", ""},
		{400, "is given 2 times", "GET", "/v1/servers?phase=gone&phase=gone", ""},
		{400, "nextCursor", "GET", "/v1/servers?cursor=x", ""},
		{400, "nextCursor", "GET", "/v1/servers?cursor=YyA3NyB4", ""},
		{400, "there are: waiting.", "GET", server("a.example") + "?x=1", ""},
		{400, "no host name", "GET", server("not a host"), ""},
		{400, "no host name", "GET", server("a.example/inbox"), ""},
		{400, "no host name", "GET", server("a.example:99999"), ""},
		{400, "not a server URL", "GET", server("ftp://a.example"), ""},
		{400, "URL of an inbox", "GET", server("inbox:a.example"), ""},
		{400, "#/reasn", "POST", server("a.example") + "/block", `{"reasn":"spam"}`},
		{400, "has 201 bytes", "POST", server("a.example") + "/block", `{"reason":"` + strings.Repeat("x", 201) + `"}`},
		{400, "is not a string", "POST", server("a.example") + "/block", `{"reason":7}`},
		{400, "not a JSON object", "POST", server("a.example") + "/block", `[]`},
		{400, "not a field", "POST", server("a.example") + "/unblock", `{"reason":"spam"}`},
		{400, "is in the past", "POST", server("a.example") + "/pause", `{"until":"2026-11-21T12:00:00Z"}`},
		{400, "which is not a time", "POST", server("a.example") + "/pause", `{"until":"tomorrow"}`},
		{400, "beside until", "POST", server("a.example") + "/pause", `{"until":"2026-11-22T12:00:00Z","for":"PT1H"}`},
		{400, "is not a duration", "POST", server("a.example") + "/pause", `{"for":"1 hour"}`},
		{400, "#/rateLimit/perMinute", "PUT", server("a.example"), `{"rateLimit":{}}`},
		{400, "between 1 and 100000", "PUT", server("a.example"), `{"rateLimit":{"perMinute":0}}`},
		{400, "#/rateLimit/rate", "PUT", server("a.example"), `{"rateLimit":{"perMinute":1,"rate":7}}`},
		{400, "is not an object", "PUT", server("a.example"), `{"rateLimit":60}`},
		{400, "#/publicKey", "PUT", server("a.example"), `{"publicKey":"x"}`},
		{400, "#/encryptionPublicKey", "PUT", server("https://a.example"), `{"publicKey":"` + key1 + `"}`},
		{400, "is not a public key", "PUT", server("https://a.example"), `{"publicKey":"` + key1 + `","encryptionPublicKey":"AAAA"}`},
		{400, "#/rateLimit", "PUT", server("https://a.example"), `{"rateLimit":{"perMinute":1}}`},
		{409, "name its host", "POST", server(inbox) + "/block", ""},
		{409, "name its host", "POST", server(inbox) + "/pause", ""},
		{409, "name its host", "PUT", server(inbox), `{"rateLimit":{"perMinute":1}}`},
		{409, "block it", "POST", server("https://a.example") + "/pause", ""},
		{415, "no Content-Type", "POST", server("a.example") + "/block", ""},
	} {
		if c.status == 415 {
			w.unsupported("POST", c.path, c.says)
			continue
		}
		w.refused(c.status, c.says, c.method, c.path, c.body)
	}
	if all := w.listed("", "", 10); len(all) > 0 {
		t.Errorf("a refused request left %+v", all)
	}
}

func TestServersOutOfReachAreAFaultOfOurs(t *testing.T) {
	w := newWorld(t)
	w.outage(func() {
		const says = "cannot be reached"
		for _, name := range []string{"a.example", "https://a.example"} {
			w.refused(503, says, "GET", server(name), "")
			for _, act := range []string{"block", "unblock", "resume", "check"} {
				w.refused(503, says, "POST", server(name)+"/"+act, "")
			}
		}
		w.refused(503, says, "POST", server("a.example")+"/pause", "")
		w.refused(503, says, "PUT", server("a.example"), `{}`)
		w.refused(503, says, "PUT", server("https://a.example"), fmt.Sprintf(`{"publicKey":%q,"encryptionPublicKey":%q}`, key2, key1))
		w.refused(503, says, "GET", "/v1/servers", "")
		w.refused(503, says, "GET", "/v1/servers?protocol=sipher", "")
	})
}

func TestTheServerOfAWebhookIsListedAsThat(t *testing.T) {
	w := newWorld(t)
	w.must("PUT", "/v1/webhooks/app", `{"url":"https://hooks.example/in"}`, new(client.Webhook))
	w.change(circuit.HostKey("hooks.example"), down)
	w.change(circuit.InboxKey("https://hooks.example/in"), down)
	w.change(circuit.HostKey("social.example"), down)
	for query, want := range map[string]map[string]string{
		"":                      {"hooks.example": "webhook", "inbox:https://hooks.example/in": "webhook", "social.example": "activitypub"},
		"?protocol=webhook":     {"hooks.example": "webhook", "inbox:https://hooks.example/in": "webhook"},
		"?protocol=activitypub": {"social.example": "activitypub"},
	} {
		var page client.Servers
		w.must("GET", "/v1/servers"+query, "", &page)
		got := map[string]string{}
		for _, s := range page.Servers {
			got[s.Name] = s.Protocol
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	var one client.Server
	if w.must("GET", "/v1/servers/hooks.example", "", &one); one.Protocol != "webhook" {
		t.Errorf("shown as %s", one.Protocol)
	}
}
