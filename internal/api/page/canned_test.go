package page_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/api/page"
	"fedpost/internal/api/problem"
	"fedpost/internal/engine/queue"
	"fedpost/internal/ledger/events"
)

// night is when the operator of these tests is paged.
var night = time.Date(2026, 11, 22, 3, 7, 12, 0, time.UTC)

const token = "a token of these tests"

// evil is what a stranger's server answers.
const evil = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202eevil\u2066 \"'&{{.}} "

// canned is an API that answers what a test wants and records what it is asked to change.
type canned struct {
	testing.TB
	mu      sync.Mutex
	answers map[string]any // by path without query; a status as int is a problem
	changed []string       // method, path and body
	asked   []string       // paths with queries that were read
	reads   bool           // the token may only read
}

func (c *canned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		_ = problem.New(http.StatusUnauthorized, "Send the API token.").Write(w)
		return
	}
	at := r.URL.EscapedPath()
	if c.reads && r.Method != http.MethodGet {
		_ = problem.New(http.StatusForbidden, "This token is read-only.").Write(w)
		return
	}
	if r.Method == http.MethodPost && at == "/v1/servers/no%20name/check" {
		// The question whether the visitor may act, which changes nothing.
		_ = problem.New(http.StatusBadRequest, "That is no host name.").Write(w)
		return
	}
	if r.Method != http.MethodGet {
		at = r.Method + " " + at
		c.changed = append(c.changed, at+" "+strings.TrimSpace(string(b)))
	} else if at != "/healthz" { // which every page asks
		c.asked = append(c.asked, r.URL.RequestURI())
	}
	answer, ok := c.answers[at+"?"+r.URL.RawQuery]
	if !ok {
		answer, ok = c.answers[at]
	}
	if q := r.URL.Query(); at == "/v1/events" && q.Get("after") != "recent" && !c.exact(r) {
		answer = someEvents(0, q.Get("after"))
	}
	switch a := answer.(type) {
	case int:
		_ = problem.New(a, "The records cannot be reached. Try again.").Write(w)
	case *problem.Problem:
		_ = a.Write(w)
	default:
		if !ok && r.Method == http.MethodGet {
			_ = problem.New(http.StatusNotFound, "There is no such thing.").Write(w)
			return
		}
		if err := json.NewEncoder(w).Encode(a); err != nil {
			c.Error(err)
		}
	}
}

func (c *canned) exact(r *http.Request) bool {
	_, ok := c.answers[r.URL.EscapedPath()+"?"+r.URL.RawQuery]
	return ok
}

// did returns what was changed since the last call.
func (c *canned) did() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.changed
	c.changed = nil
	return all
}

func (c *canned) set(path string, answer any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = answer
}

// well is the API of a fedpost without work.
func well(t testing.TB) *canned {
	zero := 0
	stats := client.Stats{
		At: night, Queues: map[string]client.QueueDepth{}, Servers: map[string]int{}, Unhealthy: []client.Trouble{},
		Counts: map[string]int{"accepted": 0, "attempts": 0, "delivered": 0, "failed": 0, "dead": 0, "duplicates": 0, "deduplicationFallbacks": 0},
	}
	for _, name := range queue.Names {
		stats.Queues[string(name)] = client.QueueDepth{Oldest: &zero}
	}
	empty := client.History{From: night.Truncate(time.Minute).Add(-59 * time.Minute), StepSeconds: 60, Since: night.Add(-10 * time.Minute), Counts: map[string][]int{}}
	day := client.History{From: night.Truncate(15 * time.Minute).Add(-95 * 15 * time.Minute), StepSeconds: 900, Since: night.Add(-10 * time.Minute), Counts: map[string][]int{}}
	return &canned{TB: t, answers: map[string]any{
		"/healthz": client.Health{Status: "ok"}, "/v1/stats": stats, "/v1/stats/history?period=hour": empty, "/v1/stats/history?period=day": day,
		"/v1/events":   client.Events{Events: []client.Event{}, Next: "bmV4dA"},
		"/v1/webhooks": client.Webhooks{Webhooks: []client.Webhook{}},
		"/v1/servers":  client.Servers{Servers: []client.Server{}}, "/v1/dead-letters": client.DeadLetters{DeadLetters: []client.DeadLetter{}},
	}}
}

// wave are numbers that rise and fall.
func wave(steps int, high float64, from int) []int {
	n := make([]int, steps)
	for i := from; i < steps; i++ {
		n[i] = int(high * (1 + math.Sin(float64(i)/7)) * (1 + 0.3*math.Sin(float64(i)*2.7)) / 2)
	}
	return n
}

// busy is an API of a fedpost with every kind of trouble.
func busy(t testing.TB) *canned {
	c := well(t)
	s := c.answers["/v1/stats"].(client.Stats)
	late, old := 2340, 90000
	s.Queues["normal"] = client.QueueDepth{Visible: 1483, InFlight: 64, Delayed: 12, Oldest: &late}
	s.Queues["dead"] = client.QueueDepth{Visible: 31, Oldest: &old}
	s.Counts = map[string]int{
		"accepted": 1284703, "attempts": 1301223, "delivered": 1203380, "failed": 8023, "dead": 31, "retrying": 3120, "parked": 40112,
		"duplicates": 12, "deduplicationFallbacks": 3, "redundant": 57,
	}
	s.Servers = map[string]int{"unhealthy": 14, "exhausted": 1, "paused": 2, "blocked": 3, "inbox": 1, "recovering": 1}
	phases := []client.Phase{client.PhaseUnhealthy, client.PhaseHalfOpen, client.PhaseExhausted, client.PhaseRecovering}
	byPhase := map[client.Phase][]client.Server{}
	var all []client.Server
	for i, name := range []string{
		"mastodon.down.example", "social.a-very-long-host-name-that-nobody-would-choose.but-somebody-did.example", "127.0.0.3:44321", "inbox:https://pleroma.example/users/someone/inbox",
		"misskey.example", "https://sipher.example", "xn--mnchen-3ya.example", "friendica.example", "hub.example", "lemmy.example",
	} {
		one := client.Server{
			Name: name, Protocol: "activitypub", Phase: phases[i%4], Since: night.Add(-time.Duration(i*i+1) * time.Hour), DownSince: night.Add(-time.Duration(200-i*i*2) * time.Hour),
			Reason: []string{"timeout", "dns", "refused", "status"}[i%4], Why: []string{"no answer in time", "no such host", "connect: connection refused", "503 " + evil}[i%4],
			Failures: 5 + i, Checks: i, NextCheckAt: night.Add(time.Duration(i) * 17 * time.Minute), Parked: i%3 != 2,
		}
		if strings.HasPrefix(name, "https:") {
			one.Protocol = "sipher"
		}
		if strings.HasPrefix(name, "inbox:") {
			one.Host = "pleroma.example"
		}
		if one.Parked {
			one.Waiting = &client.WaitingInAll{Count: 1000, AtLeast: i == 0}
		}
		byPhase[one.Phase] = append(byPhase[one.Phase], one)
		all = append(all, one)
		s.Unhealthy = append(s.Unhealthy, client.Trouble{Server: name, Protocol: one.Protocol, Phase: one.Phase, DownSince: one.DownSince, Reason: one.Reason, Why: one.Why})
		c.answers["/v1/servers/"+escaped(name)] = one
	}
	for phase, some := range byPhase {
		c.answers["/v1/servers?limit=100&phase="+string(phase)+"&waiting=true"] = client.Servers{Servers: some}
	}
	limited := client.Server{
		Name: "limited.example", Protocol: "activitypub", Phase: client.PhasePaused, Since: night.Add(-time.Hour), Until: night.Add(time.Hour), Why: "asked by mail",
		RateLimit: &client.RateLimit{PerMinute: 60, Burst: 5}, Window: &client.Window{Start: night.Add(-4 * time.Minute), Attempts: 40, Failures: 3},
		SignatureForm: "rfc9421",
	}
	blocked := client.Server{Name: "*.bad.example", Protocol: "activitypub", Phase: client.PhaseBlocked, Since: night.Add(-300 * time.Hour), Why: "abuse, ticket 4711"}
	gone := client.Server{Name: "gone.example", Protocol: "activitypub", Phase: client.PhaseGone, Since: night.Add(-3 * time.Hour), Until: night.Add(21 * time.Hour)}
	peer := client.Server{
		Name: "https://peer.example", Protocol: "sipher", Phase: client.PhaseHealthy, LastSeen: night.Add(-5 * time.Minute), Keys: &client.SipherKeys{Signing: "AAAAC3NzaC1lZDI1NTE5AAAAIFoo+Bar/12345678901234567=", Encryption: "BBBBC3NzaC1lZDI1NTE5AAAAIFoo+Bar/12345678901234567="},
		RefusedKeys: &client.RefusedKeys{SipherKeys: client.SipherKeys{Signing: "CCCC", Encryption: "DDDD"}, Via: "discovery", FirstSeen: night, LastSeen: night, Count: 3},
	}
	for _, one := range []client.Server{limited, blocked, gone, peer} {
		c.answers["/v1/servers/"+escaped(one.Name)] = one
		c.answers["/v1/servers?limit=100&phase="+string(one.Phase)+"&waiting=true"] = client.Servers{Servers: []client.Server{one}}
		all = append(all, one)
	}
	c.answers["/v1/servers"] = client.Servers{Servers: all, NextCursor: "bmV4dA"}
	c.answers["/v1/servers?cursor=bmV4dA&limit=1000&waiting=true"] = client.Servers{Servers: []client.Server{{
		Name: "second.example", Protocol: "activitypub", Phase: client.PhaseHealthy, Parked: true, NextCheckAt: night.Add(time.Minute), RateLimit: &client.RateLimit{PerMinute: 5},
	}}}
	s.Webhooks = map[string]int{client.WebhookEnabled: 1, client.WebhookFailing: 1, client.WebhookDisabled: 1}
	s.Waiting = &client.WaitingInAll{Count: 10_000, AtLeast: true}
	c.answers["/v1/stats"] = s
	for _, name := range []string{"mastodon.down.example", "inbox:https://pleroma.example/users/someone/inbox", "hub.example", "limited.example", "gone.example"} {
		c.answers["/v1/servers/"+escaped(name)+"/waiting"] = someWaiting(name)
	}
	c.answers["/v1/activities"] = someActivities()
	hooks := []client.Webhook{
		{ID: "app", URL: "https://social.example/hooks/fedpost", State: client.WebhookEnabled, CreatedAt: night.Add(-900 * time.Hour)},
		{ID: "pager", URL: "https://pager.example/in?" + evil, Types: []string{"server.gone", "webhook.disabled"}, Batch: true, State: client.WebhookFailing, FailingSince: night.Add(-3 * time.Hour), LastError: "answered 500: " + evil},
		{ID: "old", URL: "https://old.example/hook", State: client.WebhookDisabled, FailingSince: night.Add(-200 * time.Hour), DisabledAt: night.Add(-80 * time.Hour), LastError: "no such host"},
	}
	key := client.Key{ID: aKey, Type: "rsa", PublicKeyPEM: "-----BEGIN PUBLIC KEY-----\n" + strings.Repeat("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n", 6) + "-----END PUBLIC KEY-----\n"}
	c.answers["/v1/keys"] = client.Keys{NextCursor: "bmV4dA", Keys: []client.Key{key, {ID: "https://social.example/users/a-longer-name-than-most-people-have#ed25519-key", Type: "ed25519", PublicKeyPEM: key.PublicKeyPEM[:80]}}}
	c.answers["/v1/keys/"+url.PathEscape(aKey)] = key
	c.answers["/v1/webhooks"] = client.Webhooks{Webhooks: hooks}
	for _, h := range hooks {
		c.answers["/v1/webhooks/"+h.ID] = h
	}
	c.answers["POST /v1/webhooks/pager/test"] = client.TestDelivery{ID: anActivity}
	hour := client.History{
		From: night.Truncate(time.Minute).Add(-59 * time.Minute), StepSeconds: 60, Since: night.Add(-19 * time.Hour),
		Counts: map[string][]int{"delivered": wave(60, 2200, 0), "retrying": wave(60, 40, 22), "parked": wave(60, 120, 35), "failed": wave(60, 14, 0), "dead": wave(60, 3, 50)},
	}
	day := client.History{
		From: night.Truncate(15 * time.Minute).Add(-95 * 15 * time.Minute), StepSeconds: 900, Since: night.Add(-19 * time.Hour),
		Counts: map[string][]int{"delivered": wave(96, 20500, 20), "retrying": wave(96, 400, 62), "parked": wave(96, 900, 75), "failed": wave(96, 150, 20), "dead": wave(96, 20, 90)},
	}
	c.answers["/v1/stats/history?period=hour"], c.answers["/v1/stats/history?period=day"] = hour, day
	c.answers["/v1/dead-letters"] = letters(31)
	c.answers["/v1/events"] = someEvents(40, "bmV4dA")
	c.answers["/v1/events?after=bmV4dA&limit=100"] = someEvents(0, "bmV4dA")
	c.answers["/v1/activities/"+anActivity] = someActivity()
	about := someActivities().Activities[:1]
	about[0].Object, about[0].Bytes, about[0].KeyID = "https://social.example/users/frida/statuses/114620", 1734, "https://social.example/users/frida#main-key"
	c.answers["/v1/activities?id="+anActivity] = client.Activities{Activities: about}
	return c
}

const aKey = "https://social.example/users/frida#main-key"

const anActivity = "01KAG3J8M2Q4R6T8V0X2Z4B6D8"

func letters(n int) client.DeadLetters {
	var l client.DeadLetters
	for i := range n {
		host := []string{"mastodon.down.example", "hub.example", "127.0.0.3:44321"}[i*i%3]
		l.DeadLetters = append(l.DeadLetters, client.DeadLetter{
			ID: fmt.Sprintf("%s.0.%d.2", anActivity, i), Activity: anActivity, Protocol: "activitypub", Type: []string{"Create", "Announce", "Delete"}[i%3],
			Inbox: "https://" + host + "/users/somebody/inbox", Host: host, Recipients: i % 4, Reason: []string{"exhausted", "expired"}[i%5/4], Attempts: 5 + i,
			LastStatus: []int{0, 503}[i%2], LastError: []string{"dial tcp: lookup " + host + ": no such host", "503 Service Unavailable: " + evil}[i%2],
			Response: evil, DiedAt: night.Add(-time.Duration(i*i) * time.Minute),
		})
	}
	return l
}

func someActivity() client.Status {
	a := client.Status{ID: anActivity, Status: "delivering", Counts: map[string]int{"delivered": 4711, "parked": 203, "retrying": 12, "failed": 9, "dead": 2}, NextCursor: "bmV4dA"}
	for i, state := range []string{"delivered", "parked", "retrying", "failed", "dead", "queued", "superseded"} {
		r := client.RecipientStatus{
			Inbox: fmt.Sprintf("https://host%d.example/users/somebody-with-a-long-name/inbox", i), State: state, Recipients: i * 20, Attempts: i + 1,
			LastStatus: []int{202, 0, 503, 404, 0, 0, 0}[i], UpdatedAt: night.Add(-time.Duration(i) * 13 * time.Minute),
		}
		switch state {
		case "parked":
			r.WaitsFor, r.NextAttemptAt, r.LastError = "mastodon.down.example", night.Add(17*time.Minute), "no answer in time"
			r.Reason = "no answer in time since 09:11 UTC, " + evil
		case "retrying":
			r.NextAttemptAt, r.LastError, r.Response = night.Add(40*time.Second), "503 Service Unavailable", evil+strings.Repeat("long ", 300)
		case "superseded":
			r.By = anActivity
		}
		a.Recipients = append(a.Recipients, r)
	}
	return a
}

func someWaiting(name string) client.Waiting {
	w := client.Waiting{Server: name, Count: 10_000, AtLeast: true, NextCursor: "bmV4dA"}
	for i := range 6 {
		w.Deliveries = append(w.Deliveries, client.WaitingDelivery{
			Activity: anActivity, Type: "Create", Inbox: fmt.Sprintf("https://%s/users/u%d/inbox", name, i), Attempts: i, Since: night.Add(-time.Duration(i) * time.Hour), GiveUpAt: night.Add(time.Duration(160-i) * time.Hour),
		})
	}
	w.Deliveries[0].OrderingKey = evil
	return w
}

func someActivities() client.Activities {
	a := client.Activities{NextCursor: "bmV4dA"}
	for i := range 8 {
		a.Activities = append(a.Activities, client.FoundActivity{
			ID: anActivity, ActivityID: fmt.Sprintf("https://social.example/users/frida/statuses/11462%d/activity", i), Actor: "https://social.example/users/frida", Type: []string{"Create", "Announce"}[i%2],
			CreatedAt: night.Add(-time.Duration(i*i) * time.Hour), Status: []string{"delivering", "done"}[i%2], Counts: map[string]int{"delivered": 4000 + i, "parked": 10 * i, "dead": i},
		})
	}
	a.Activities[7].Type, a.Activities[7].ActivityID, a.Activities[7].Actor = "<b>"+evil, "", evil
	return a
}

func someEvents(n int, next string) client.Events {
	page := client.Events{Events: []client.Event{}, Next: next}
	for i := range n {
		kind := events.Kinds[i%len(events.Kinds)]
		e := client.Event{ID: fmt.Sprintf("evt_%d", i), Type: string(kind), Time: night.Add(time.Duration(i-n) * 7 * time.Minute), Host: fmt.Sprintf("host%d.example", i), Reason: "no answer in time"}
		if strings.HasPrefix(string(kind), "recipient.") {
			e.Inbox, e.ActivityID, e.Status, e.Reason = "https://"+e.Host+"/users/somebody/inbox", anActivity, 410, "answered 410 Gone: "+evil
			e.Activity = &client.About{Type: "Create"}
			e.Count, e.Since = i, night.Add(-48*time.Hour)
		}
		if kind == events.ActivityDone {
			e.Host, e.Reason, e.ActivityID, e.Activity = "", "4 delivered, 1 failed", anActivity, &client.About{ID: "https://social.example/a/1", Type: "Create"}
		}
		page.Events = append(page.Events, e)
	}
	return page
}

func escaped(name string) string {
	return strings.NewReplacer("/", "%2F", ":", ":", "*", "%2A").Replace(name)
}

// site is the page of an API, for browsers.
type site struct {
	testing.TB
	api *canned
	url string
}

func serve(t testing.TB, api *canned, needed bool) *site {
	t.Helper()
	enter := page.ByToken(api, needed)
	if !needed {
		// The API of these tests always wants its token.
		enter = page.ByToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			api.ServeHTTP(w, r)
		}), false)
	}
	p := page.New(page.Options{Enter: enter, Now: func() time.Time { return night }, Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.Serves(r) {
			http.Error(w, "not the page's", http.StatusNotFound)
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return &site{t, api, s.URL}
}

var quiet = slog.New(slog.DiscardHandler)

// serveOn serves a page and returns its address.
func serveOn(t testing.TB, p http.Handler) string {
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}
