package eventbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/eventbridge"
)

// request is PutEvents on the wire.
type request struct {
	Entries []struct {
		EventBusName, Source, DetailType, Detail string
		Time                                     float64
	}
}

// bus is a server that answers as EventBridge does.
type bus struct {
	*testing.T
	requests []request
	took     []string
	// refuses says which of an entry's tries is refused.
	refuses func(detail string, try int) bool
	tries   map[string]int
	down    bool
}

func (b *bus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		b.Error(err)
	}
	if got := r.Header.Get("X-Amz-Target"); got != "AWSEvents.PutEvents" || !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/events/aws4_request") {
		b.Errorf("the request is %s, signed as %s; want AWSEvents.PutEvents for events in us-east-1", got, r.Header.Get("Authorization"))
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if b.down {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"AccessDeniedException","Message":"no"}`)
		return
	}
	var in request
	if err := json.Unmarshal(text, &in); err != nil {
		b.Error(err)
	}
	b.requests = append(b.requests, in)
	var answers []string
	failed := 0
	for _, e := range in.Entries {
		b.tries[e.Detail]++
		if b.refuses != nil && b.refuses(e.Detail, b.tries[e.Detail]) {
			failed++
			answers = append(answers, `{"ErrorCode":"ThrottlingException","ErrorMessage":"slow down"}`)
			continue
		}
		b.took = append(b.took, e.Detail)
		answers = append(answers, `{"EventId":"x"}`)
	}
	fmt.Fprintf(w, `{"FailedEntryCount":%d,"Entries":[%s]}`, failed, strings.Join(answers, ","))
}

func newBus(t *testing.T) (*bus, eventbridge.Bus) {
	b := &bus{T: t, tries: map[string]int{}}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	env := map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_ENDPOINT_URL_EVENTBRIDGE": s.URL,
	}
	cfg, err := awssdk.Config(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	client, err := awssdk.EventBridge(cfg, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return b, eventbridge.Bus{Client: client, Name: "fedi", Wait: func(ctx context.Context, _ int) error { return ctx.Err() }}
}

func entries(n, bytes int) (all []eventbridge.Entry) {
	for i := range n {
		all = append(all, eventbridge.Entry{
			Type: "recipient.gone", Time: time.Unix(1_700_000_000, 0), JSON: fmt.Sprintf(`{"id":%d,"x":%q}`, i, strings.Repeat("x", bytes)),
		})
	}
	return all
}

func TestEntriesGoInAsFewRequestsAsTheLimitsAllow(t *testing.T) {
	for _, c := range []struct {
		n, bytes int
		want     []int
	}{{0, 0, nil}, {1, 0, []int{1}}, {25, 100, []int{10, 10, 5}}, {7, 100 << 10, []int{2, 2, 2, 1}}} {
		server, b := newBus(t)
		all := entries(c.n, c.bytes)
		if err := b.Put(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, r := range server.requests {
			got = append(got, len(r.Entries))
		}
		if !slices.Equal(got, c.want) || len(server.took) != c.n {
			t.Errorf("%d entries of %d bytes go in requests of %v, want %v", c.n, c.bytes, got, c.want)
		}
		for _, r := range server.requests {
			if e := r.Entries[0]; e.EventBusName != "fedi" || e.Source != "fedpost" || e.DetailType != "recipient.gone" || e.Time != 1_700_000_000 || !json.Valid([]byte(e.Detail)) {
				t.Errorf("the entry is %+v, want recipient.gone of fedpost on the bus fedi", e)
			}
		}
	}
}

func TestOnlyEntriesThatWereNotTakenArePutAgain(t *testing.T) {
	server, b := newBus(t)
	all := entries(12, 10)
	server.refuses = func(detail string, try int) bool { return (detail == all[3].JSON || detail == all[11].JSON) && try < 4 }
	if err := b.Put(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	slices.Sort(server.took)
	if len(slices.Compact(slices.Clone(server.took))) != 12 || len(server.took) != 12 {
		t.Errorf("took %d", len(server.took))
	}
}

func TestABusThatDoesNotTakeEntriesIsAnError(t *testing.T) {
	server, b := newBus(t)
	server.refuses = func(string, int) bool { return true }
	if err := b.Put(t.Context(), entries(2, 0)); !errors.Is(err, eventbridge.ErrNotTaken) || !strings.Contains(err.Error(), "ThrottlingException: slow down") || len(server.requests) != 4 {
		t.Errorf("%v after %d requests", err, len(server.requests))
	}
	server.down = true
	if err := b.Put(t.Context(), entries(1, 0)); err == nil || errors.Is(err, eventbridge.ErrNotTaken) {
		t.Errorf("error %v, want one other than ErrNotTaken", err)
	}
}
