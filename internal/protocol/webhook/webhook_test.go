package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/webhook"
)

// memory is a webhook.Store.
type memory struct {
	all  map[string]webhook.Webhook
	n    int
	told []string // disabled
	err  error
}

func (m *memory) Webhooks(context.Context) (all []webhook.Webhook, err error) {
	for _, id := range slices.Sorted(maps.Keys(m.all)) {
		all = append(all, m.all[id])
	}
	return all, m.err
}

func (m *memory) Webhook(_ context.Context, id string) (webhook.Webhook, error) {
	w, ok := m.all[id]
	if !ok && m.err == nil {
		return w, webhook.ErrNotFound
	}
	return w, m.err
}

func (m *memory) SaveWebhook(_ context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	if m.err != nil {
		return w, m.err
	}
	if m.all[w.ID].Version != w.Version {
		return w, webhook.ErrChanged
	}
	m.n++
	w.Version = fmt.Sprint(m.n)
	m.all[w.ID] = w
	return w, nil
}

func (m *memory) DisableWebhook(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	m.told = append(m.told, w.ID)
	return m.SaveWebhook(ctx, w)
}

func (m *memory) DeleteWebhook(_ context.Context, id string) error {
	delete(m.all, id)
	return m.err
}

// plain seals nothing but the id.
type plain struct{ opens int }

func (*plain) Seal(_ context.Context, id string, b []byte) ([]byte, error) {
	return []byte(id + "|" + string(b)), nil
}

func (p *plain) Open(_ context.Context, id string, b []byte) ([]byte, error) {
	p.opens++
	text, ok := strings.CutPrefix(string(b), id+"|")
	if !ok {
		return nil, errors.New("sealed for another")
	}
	return []byte(text), nil
}

type bed struct {
	*testing.T
	store  *memory
	sealer *plain
	now    time.Time
	sender *webhook.Sender
	all    webhook.Registry
	handed []webhook.Sending
	handErr,
	feedErr error
	feed []webhook.Event
}

func newBed(t *testing.T, allowPrivate bool) *bed {
	b := &bed{T: t, store: &memory{all: map[string]webhook.Webhook{}}, sealer: &plain{}, now: time.Now()}
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", AllowPrivate: allowPrivate, AllowHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return b.now }
	b.sender = &webhook.Sender{Store: b.store, Sealer: b.sealer, Client: client, Now: now, Date: now, Log: slog.New(slog.DiscardHandler)}
	hand := func(_ context.Context, all []webhook.Sending) error {
		b.handed = append(b.handed, all...)
		return b.handErr
	}
	b.all = webhook.Registry{Store: b.store, Sealer: b.sealer, Now: now, Hand: hand, Reopen: func(context.Context, string) error { return nil }, Tail: func(context.Context) (string, error) {
		return fmt.Sprint(len(b.feed)), nil
	}, Since: func(_ context.Context, at time.Time) (string, error) {
		i := slices.IndexFunc(b.feed, func(e webhook.Event) bool { return !e.Time.Before(at) })
		if i < 0 {
			i = len(b.feed)
		}
		return fmt.Sprint(i), nil
	}}
	return b
}

// After implements webhook.Feed.
func (b *bed) After(_ context.Context, cursor string, limit int) (all []webhook.Event, next string, more bool, err error) {
	from := 0
	if _, err := fmt.Sscan(cursor, &from); err != nil {
		b.Fatal(err)
	}
	to := min(len(b.feed), from+limit)
	return b.feed[from:to], fmt.Sprint(to), to < len(b.feed), b.feedErr
}

func (b *bed) put(id string, s webhook.Settings) string {
	b.Helper()
	_, secret, _, err := b.all.Put(b.Context(), id, s)
	if err != nil {
		b.Fatal(err)
	}
	return secret
}

// pump runs the pump and returns what it handed over.
func (b *bed) pump() []webhook.Sending {
	b.Helper()
	b.handed = nil
	p := &webhook.Pump{Store: b.store, Feed: b, Hand: b.all.Hand}
	if err := p.Check(b.Context(), b.now); err != nil && b.handErr == nil && b.feedErr == nil {
		b.Fatal(err)
	}
	return b.handed
}

func (b *bed) happens(n int, kind, json string) {
	for range n {
		i := len(b.feed)
		b.feed = append(b.feed, webhook.Event{ID: fmt.Sprintf("evt_%d", i), Type: kind, Time: b.now, JSON: json})
	}
}

func (b *bed) try(s webhook.Sending) outcome.Outcome {
	return b.sender.Prepare(b.Context(), s.Activity)(b.Context(), activity.Target{Inbox: s.URL}, 1)
}

func TestEachEventIsARequestUnlessBatchesAreAskedFor(t *testing.T) {
	b := newBed(t, true)
	b.happens(3, "server.gone", "{}") // before there are webhooks
	b.put("one", webhook.Settings{URL: "https://a.example/", Types: []string{"recipient.gone"}})
	b.put("many", webhook.Settings{URL: "https://b.example/", Batch: true})
	b.happens(250, "recipient.gone", `{"a":1}`)
	b.happens(4, "server.gone", `{"b":1}`)
	ids := map[activity.ID]bool{}
	count := map[string][]int{}
	for _, s := range b.pump() {
		ids[s.Activity.ID] = true
		count[s.Activity.KeyID] = append(count[s.Activity.KeyID], strings.Count(s.Activity.Body, `":1}`))
	}
	if len(count["one"]) != 250 || !slices.Equal(count["many"], []int{100, 100, 54}) || len(ids) != 253 {
		t.Errorf("%d requests and %v", len(count["one"]), count["many"])
	}
	if again := b.pump(); len(again) != 0 {
		t.Errorf("%d are handed over again", len(again))
	}
	b.happens(7, "server.gone", `{"b":1,"c":"`+strings.Repeat("x", 60<<10)+`"}`)
	var bytes []int
	for _, s := range b.pump() {
		bytes = append(bytes, len(s.Activity.Body)>>10)
	}
	if !slices.Equal(bytes, []int{180, 180, 60}) {
		t.Errorf("requests of %v KiB", bytes)
	}
}

func TestAPumpThatDiesHandsOverTheSameActivities(t *testing.T) {
	b := newBed(t, true)
	b.put("one", webhook.Settings{URL: "https://a.example/"})
	b.happens(5, "recipient.gone", "{}")
	b.handErr = errors.New("the queue is down")
	first := b.pump()
	b.handErr, b.now = nil, b.now.Add(time.Minute)
	b.happens(2, "recipient.gone", "{}")
	second := b.pump()
	if len(first) != 5 || len(second) != 7 {
		t.Fatalf("%d, then %d", len(first), len(second))
	}
	for i := range first {
		if first[i].Activity.ID != second[i].Activity.ID || first[i].Activity.Job != second[i].Activity.Job {
			t.Errorf("request %d has another id", i)
		}
	}
}

func TestRequestsAreSignedWithEverySecretThatIsValid(t *testing.T) {
	b := newBed(t, true)
	type request struct {
		header http.Header
		body   []byte
	}
	got := make(chan request, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{r.Header, body}
	}))
	defer s.Close()
	first := b.put("one", webhook.Settings{URL: s.URL})
	verified := func(want map[string]bool) {
		t.Helper()
		b.happens(1, "recipient.gone", `{"name":"ä €"}`)
		if o := b.try(b.pump()[0]); o.Class != outcome.Delivered {
			t.Fatalf("the outcome is %+v, want delivered", o)
		}
		r := <-got
		for secret, valid := range want {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if err := wh.VerifyIgnoringTimestamp(r.body, r.header); (err == nil) != valid {
				t.Errorf("verified: %v, want %v", err, valid)
			}
			if err := wh.VerifyIgnoringTimestamp(append(r.body, ' '), r.header); err == nil {
				t.Error("another body is verified, too")
			}
		}
	}
	verified(map[string]bool{first: true})
	second := b.put("one", webhook.Settings{URL: s.URL, Rotate: true})
	verified(map[string]bool{first: true, second: true})
	b.now = b.now.Add(webhook.Overlap)
	verified(map[string]bool{first: false, second: true})
	for range 10 { // however often it is replaced
		b.put("one", webhook.Settings{URL: s.URL, Rotate: true})
	}
	if n := len(b.store.all["one"].Secrets); n > 4 {
		t.Errorf("%d secrets are kept", n)
	}
	if err := b.all.DeleteWebhook(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	opens := b.sealer.opens
	b.put("two", webhook.Settings{URL: s.URL, Secret: second})
	verified(map[string]bool{second: true})
	b.handed = nil
	if opens == b.sealer.opens {
		t.Error("nothing was opened")
	}
	opens = b.sealer.opens
	b.happens(1, "recipient.gone", "{}")
	b.try(b.pump()[0])
	<-got
	if b.sealer.opens != opens {
		t.Error("a secret is opened again for each request")
	}
}

func TestWhatBecomesOfARequest(t *testing.T) {
	b := newBed(t, true)
	status, header := 200, http.Header{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), header)
		w.WriteHeader(status)
	}))
	// Under load the kernel may show the client too late that Close ended a kept connection.
	s.Config.SetKeepAlivesEnabled(false)
	b.put("one", webhook.Settings{URL: s.URL})
	b.happens(1, "recipient.gone", "{}")
	one := b.pump()[0]
	for _, c := range []struct {
		status  int
		after   string
		class   outcome.Class
		failing bool
	}{
		{200, "", outcome.Delivered, false},
		{302, "", outcome.Retry, true},
		{404, "", outcome.Retry, true},
		{401, "", outcome.Retry, true},
		{204, "", outcome.Delivered, false},
		{500, "", outcome.Retry, true},
		{503, "", outcome.Retry, true},
		{200, "", outcome.Delivered, false},
		{503, "60", outcome.Throttled, true},
		{429, "60", outcome.Throttled, true},
		{429, "", outcome.Retry, true},
		{200, "", outcome.Delivered, false},
		{410, "", outcome.Refused, true},
	} {
		status, header = c.status, http.Header{}
		if c.after != "" {
			header.Set("Retry-After", c.after)
		}
		o := b.try(one)
		if o.Class != c.class || o.Status != c.status || (o.RetryAfter.IsZero() == (c.class == outcome.Throttled)) {
			t.Errorf("%d: %+v", c.status, o)
		}
		if failing := !b.store.all["one"].FailingSince.IsZero(); failing != c.failing {
			t.Errorf("%d: failing: %v", c.status, failing)
		}
	}
	s.Close()
	if o := b.try(one); o.Class != outcome.Retry || o.Try != outcome.Made || o.Reason != outcome.ConnRefused {
		t.Errorf("the outcome is %+v, want a retry after a refused connection", o)
	}
	b.store.err = errors.New("the table is down")
	if o := b.try(one); o.Class != outcome.Retry || o.Try != outcome.Untried {
		t.Errorf("the outcome is %+v, want a retry without a try", o)
	}
	b.store.err = nil
	if err := b.all.DeleteWebhook(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if o := b.try(one); o.Class != outcome.Refused || o.Try != outcome.Untried {
		t.Errorf("of a deleted one: %+v", o)
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	b := newBed(t, false)
	b.put("one", webhook.Settings{URL: "http://127.0.0.1:1/"})
	b.happens(1, "recipient.gone", "{}")
	if o := b.try(b.pump()[0]); o.Class != outcome.Refused || o.Reason != outcome.BlockedAddr {
		t.Errorf("the outcome is %+v, want a refused address", o)
	}
	if b.store.all["one"].FailingSince.IsZero() {
		t.Error("does not count as failing")
	}
}

func TestAWebhookThatFailsForFiveDaysIsDisabledUntilItIsPutAgain(t *testing.T) {
	b := newBed(t, true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	defer s.Close()
	b.put("one", webhook.Settings{URL: s.URL})
	b.happens(1, "recipient.gone", "{}")
	one := b.pump()[0]
	b.try(one)
	b.now = b.now.Add(webhook.GiveUp - time.Second)
	b.try(one)
	if b.pump(); len(b.store.told) != 0 {
		t.Fatal("disabled too early")
	}
	b.now = b.now.Add(time.Second)
	b.happens(3, "recipient.gone", "{}")
	if got := b.pump(); len(got) != 0 || !slices.Equal(b.store.told, []string{"one"}) || b.store.all["one"].LastError == "" {
		t.Errorf("%d handed over, told of %v", len(got), b.store.told)
	}
	if b.pump(); len(b.store.told) != 1 {
		t.Error("told again")
	}
	if o := b.try(one); o.Class != outcome.Refused || !strings.Contains(o.Err, "disabled") {
		t.Errorf("the outcome is %+v, want refused as disabled", o)
	}
	b.put("one", webhook.Settings{URL: s.URL})
	if got := b.pump(); len(got) != 4 {
		t.Errorf("%d of the 4 that it missed", len(got))
	}
}

func TestOneWebhooksTroubleIsNotAnothers(t *testing.T) {
	b := newBed(t, true)
	for i := range webhook.MostWebhooks {
		b.put(fmt.Sprintf("w%02d", i), webhook.Settings{URL: "https://a.example/"})
	}
	if _, _, _, err := b.all.Put(t.Context(), "more", webhook.Settings{URL: "https://a.example/"}); !errors.Is(err, webhook.ErrTooMany) {
		t.Errorf("error %v", err)
	}
	b.happens(2, "recipient.gone", "{}")
	p := &webhook.Pump{Store: b.store, Feed: b, Hand: func(_ context.Context, all []webhook.Sending) error {
		if all[0].Activity.KeyID == "w03" {
			return errors.New("too large")
		}
		b.handed = append(b.handed, all...)
		return nil
	}}
	if err := p.Check(t.Context(), b.now); err == nil || len(b.handed) != 2*(webhook.MostWebhooks-1) {
		t.Errorf("%d handed over, %v", len(b.handed), err)
	}
}

func TestSecrets(t *testing.T) {
	for s, good := range map[string]bool{
		webhook.NewSecret(): true, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": true,
		"": false, "whsec_": false, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": false, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa": false,
		"whsec_" + strings.Repeat("A", 4*22): false, "whsec_%%%": false,
	} {
		if err := webhook.CheckSecret(s); (err == nil) != good {
			t.Errorf("%q: %v", s, err)
		}
	}
	if one, other := webhook.NewSecret(), webhook.NewSecret(); one == other {
		t.Error("the same secret twice")
	}
}
