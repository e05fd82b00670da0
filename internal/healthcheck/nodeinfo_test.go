package healthcheck_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/healthcheck"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/world"
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

func TestAnyAnswerToNodeInfoButAServerErrorPasses(t *testing.T) {
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
		{"501 of a server that knows POST only", answering{"https" + address: 501}, false, true, 501, ""},
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
				t.Errorf("the outcome is %+v, want passing %t, status %d, reason %q", o, c.pass, c.status, c.reason)
			}
		})
	}
}

func TestAProbeThatTheScheduleCutsShortIsTheHostsFault(t *testing.T) {
	client, err := outbound.New(outbound.Config{UserAgent: "test/1", Timeout: time.Minute, Transport: answering{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, outbound.ErrTimeout)
	defer cancel()
	if o := (healthcheck.NodeInfo{Client: client}).Probe(ctx, "a.example"); !o.HostFault() || o.Reason != outcome.Timeout {
		t.Errorf("the outcome is %+v, want a timeout, the host's fault", o)
	}
}

// TestAPlainHTTPServerThatHangsFailsByTimeout and not by its lack of TLS, and gets its share of the
// probe's time if even the handshake hangs.
func TestAPlainHTTPServerThatHangsFailsByTimeout(t *testing.T) {
	for name, https := range map[string]error{
		"it answers the handshake with HTTP": &outbound.TLSError{Err: errors.New("first record does not look like a TLS handshake")},
		"it hangs in the handshake, too":     nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			client, err := outbound.New(outbound.Config{UserAgent: "test/1", AllowHTTP: true, Transport: hanging{https}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 8*time.Second, outbound.ErrTimeout)
			defer cancel()
			start := time.Now()
			o := healthcheck.NodeInfo{Client: client, AllowHTTP: true}.Probe(ctx, "a.example")
			if o.Reason != outcome.Timeout || strings.Contains(o.Err, "TLS") || !o.HostFault() {
				t.Errorf("%s: got %q, %q, want a time-out", name, o.Reason, o.Err)
			}
			if took := time.Since(start); took != 8*time.Second {
				t.Errorf("%s: took %s, want the probe's 8s", name, took)
			}
		})
	}
}

// hanging answers no request by http, and requests by https only with an error, if it has one.
type hanging struct{ https error }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" && h.https != nil {
		return nil, h.https
	}
	<-r.Context().Done()
	if r.URL.Scheme == "https" {
		return nil, &outbound.TLSError{Err: r.Context().Err()}
	}
	return nil, r.Context().Err()
}

func TestANameThatIsNoHostFailsTheCheck(t *testing.T) {
	client, err := outbound.New(outbound.Config{UserAgent: "test/1", Transport: answering{}})
	if err != nil {
		t.Fatal(err)
	}
	if o := (healthcheck.NodeInfo{Client: client}).Probe(t.Context(), "a b"); o.Try == outcome.Made {
		t.Errorf("the outcome is %+v, want none that was made", o)
	}
}

// TestAFailedProbeNamesTheStatus, also one without a text, such as Cloudflare's 521.
func TestAFailedProbeNamesTheStatus(t *testing.T) {
	for status, want := range map[int]string{503: "answered 503 Service Unavailable", 521: "answered 521"} {
		client, err := outbound.New(outbound.Config{UserAgent: "test/1", Transport: answering{"https://a.example/.well-known/nodeinfo": status}})
		if err != nil {
			t.Fatal(err)
		}
		if o := (healthcheck.NodeInfo{Client: client}).Probe(t.Context(), "a.example"); o.Err != want || o.Status != status {
			t.Errorf("%d: %+v", status, o)
		}
	}
}

func TestAProbeThatOurProxyFailsUsesUpNoCheck(t *testing.T) {
	client, err := outbound.New(outbound.Config{UserAgent: "test/1", Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	w, _ := outage(t, 1)
	before := state(t, w, circuit.HostKey("down.example"))
	w.Clock.Advance(before.CheckAt.Sub(w.Now()))
	if err := runner(w, throughProxy{healthcheck.NodeInfo{Client: client}}, nil).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := state(t, w, circuit.HostKey("down.example")); s.Checks != before.Checks || s.Phase != circuit.Unhealthy || !s.CheckAt.After(w.Now()) {
		t.Errorf("want no check counted and another one planned; it is %s: %s", w.Now(), world.Brief(s))
	}
}

// throughProxy probes an address, as no name can be looked up here.
type throughProxy struct{ healthcheck.NodeInfo }

func (p throughProxy) Probe(ctx context.Context, _ string) outcome.Outcome {
	return p.NodeInfo.Probe(ctx, "1.1.1.1")
}
