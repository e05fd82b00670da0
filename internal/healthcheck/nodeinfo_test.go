package healthcheck_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/healthcheck"
	"fedpost/internal/protocol/outbound"
)

// answering is a network in memory: statuses by URL; others do not answer.
type answering map[string]int

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, errors.New("a probe is a GET")
	}
	status, ok := a[r.URL.String()]
	if !ok {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

func TestAnyAnswerBelow500ToNodeInfoPasses(t *testing.T) {
	const address = "://a.example/.well-known/nodeinfo"
	for _, c := range []struct {
		name    string
		network answering
		http    bool
		pass    bool
		status  int
		reason  outcome.Reason
	}{
		{"200", answering{"https" + address: 200}, false, true, 200, ""},
		{"404", answering{"https" + address: 404}, false, true, 404, ""},
		{"429", answering{"https" + address: 429}, false, true, 429, ""},
		{"500", answering{"https" + address: 500}, false, false, 500, ""},
		{"503", answering{"https" + address: 503}, false, false, 503, ""},
		{"silence", answering{}, false, false, 0, outcome.Timeout},
		{"plain http is not tried", answering{"http" + address: 200}, false, false, 0, outcome.Timeout},
		{"plain http is tried in trials", answering{"http" + address: 200}, true, true, 200, ""},
		{"https is enough in trials", answering{"https" + address: 200}, true, true, 200, ""},
		{"silence in trials", answering{}, true, false, 0, outcome.Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := outbound.New(outbound.Config{UserAgent: "test/1", AllowHTTP: c.http, Timeout: 20 * time.Millisecond, Transport: c.network})
			if err != nil {
				t.Fatal(err)
			}
			o := healthcheck.NodeInfo{Client: client, AllowHTTP: c.http}.Probe(context.Background(), "a.example")
			if pass := !o.HostFault() && o.Try == outcome.Made; pass != c.pass || o.Status != c.status || o.Reason != c.reason {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestAProbeThatTheScheduleCutsShortIsTheHostsFault(t *testing.T) {
	client, err := outbound.New(outbound.Config{UserAgent: "test/1", Timeout: time.Minute, Transport: answering{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if o := (healthcheck.NodeInfo{Client: client}).Probe(ctx, "a.example"); !o.HostFault() || o.Reason != outcome.Timeout {
		t.Errorf("%+v", o)
	}
}

func TestANameThatIsNoHostFailsTheCheck(t *testing.T) {
	client, err := outbound.New(outbound.Config{UserAgent: "test/1", Transport: answering{}})
	if err != nil {
		t.Fatal(err)
	}
	if o := (healthcheck.NodeInfo{Client: client}).Probe(t.Context(), "a b"); o.Try == outcome.Made {
		t.Errorf("%+v", o)
	}
}

// TestAFailedProbeNamesTheStatus, also one without a text, such as Cloudflare's 521.
func TestAFailedProbeNamesTheStatus(t *testing.T) {
	for status, want := range map[int]string{501: "answered 501 Not Implemented", 521: "answered 521"} {
		client, err := outbound.New(outbound.Config{UserAgent: "test/1", Transport: answering{"https://a.example/.well-known/nodeinfo": status}})
		if err != nil {
			t.Fatal(err)
		}
		if o := (healthcheck.NodeInfo{Client: client}).Probe(t.Context(), "a.example"); o.Err != want || o.Status != status {
			t.Errorf("%d: %+v", status, o)
		}
	}
}
