package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/sipherpeer"
)

// join adds a server that speaks Sipher to the network.
func (s *sim) join(t *testing.T, v *server) {
	v.peer = sipherpeer.New(t, "https://"+v.Host)
	v.peer.Through(between{s})
	v.tries = map[int]int{}
	if !v.Sipher.Known {
		return
	}
	v.peer.Know(ownOrigin, s.us.PublicKey(), s.us.EncryptionKey())
	if err := s.raw.Sipher().SetKeys(context.Background(), v.peer.URL, v.peer.PublicKey(), v.peer.EncryptionKey(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.raw.Sipher().Announce(context.Background(), v.peer.URL, true); err != nil {
		t.Fatal(err)
	}
}

var sealedFor = regexp.MustCompile(`"targetUrl":"https://([^/"]+)/proxy"`)

// readSealed finds the post in a request to a Sipher server.
func (s *sim) readSealed(to *server, req *request) {
	if m := sealedFor.FindSubmatch(req.body); m != nil && req.path == "/proxy" {
		if to = s.servers[string(m[1])]; to == nil || to.peer == nil {
			return
		}
	}
	if m := named.FindStringSubmatch(to.peer.Read(string(req.body))); m != nil {
		req.n, _ = strconv.Atoi(m[1])
	}
}

// sipher answers one of our requests as a Sipher server does.
func (v *server) sipher(p *process, r *http.Request, req request) (*http.Response, error) {
	s := p.sim
	s.book.requests++
	s.relaying = p
	a := v.at(time.Since(s.began), req.path)
	if req.path == "/discover" {
		v.discovered(p, r)
	}
	if req.post && req.path != "/discover" {
		s.story.print("%s POSTs %d to %s%s: %s", p.name(), req.n, req.host, req.path, a)
	}
	if req.path == "/proxy" {
		pa := phaseAt(v.Sipher.Proxying, time.Since(s.began))
		if a.Kind == Accepts || a.takes() {
			a = pa
		}
		if pa.Kind != Accepts {
			s.story.print("%s as a proxy: %s", v.Host, pa)
		}
	} else if req.post && req.path != "/discover" {
		v.tried(p, req.n)
	}
	switch a.Kind {
	case Hides:
		v.faultedBy(p, req)
		return nil, &net.DNSError{Err: "no such host", Name: v.Host, IsNotFound: true}
	case Closes:
		v.faultedBy(p, req)
		return nil, io.EOF
	case Refuses:
		v.faultedBy(p, req)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Resets:
		v.faultedBy(p, req)
		return nil, syscall.ECONNRESET
	case Hangs:
		return nil, errHangs
	}
	return v.exchange(p, a, r, req, true)
}

// takes reports whether a Sipher server takes the delivery, whatever it answers.
func (a Answer) takes() bool {
	switch a.Kind {
	case Accepts, Nods, Forges, Mumbles, Swallows:
		return true
	}
	return false
}

// exchange returns the answer of the server's peer to any request.
func (v *server) exchange(p *process, a Answer, r *http.Request, req request, direct bool) (*http.Response, error) {
	if a.Kind == Says {
		return response(a.Status, a.RetryAfter, `{"error":"no","code":"NO"}`), nil
	}
	v.peer.Behave(v.behavior(a, req))
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(req.body))
	before := len(v.peer.Received())
	res, err := sipherpeer.Serve(v.peer, in)
	if got := v.peer.Received(); len(got) > before {
		v.noted(p, a, got[before], direct)
	}
	if err != nil && direct {
		v.faultedBy(p, req)
	}
	return res, err
}

// behavior is an answer as the peer's behavior.
func (v *server) behavior(a Answer, req request) sipherpeer.Behavior {
	b := sipherpeer.Behavior{Accepted: v.Sipher.Accepted}
	if v.Sipher.Inline {
		b.Form = sipherpeer.Inline
	}
	exists := "FEDERATED_POST_ALREADY_EXISTS"
	if strings.HasSuffix(req.path, sipherpeer.FollowsPath) || bytes.Contains(req.body, []byte(sipherpeer.FollowsPath)) {
		exists = "FOLLOW_ALREADY_EXISTS"
	}
	switch a.Kind {
	case Swallows:
		b.Lose = true
	case Nods:
		b.Body = `{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE"}}`
	case Forges:
		b.BadSignature = true
	case Mumbles:
		b.Form = sipherpeer.Legacy
	case Claims:
		b.Status, b.Code = http.StatusConflict, exists
		b.ProxyStatus, b.ProxyBody = http.StatusConflict, fmt.Sprintf(`{"error":"exists","code":%q}`, exists)
	case Invents:
		b.ProxyBody = `{"method":"PROXY_RESPONSE","payload":{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":"x"}}`
	}
	return b
}

// noted records what a peer received. It takes deliveries as any server does; whether we can know
// that depends on its acknowledgement.
func (v *server) noted(p *process, a Answer, got sipherpeer.Received, direct bool) {
	if got.Path != sipherpeer.FollowsPath && got.Path != sipherpeer.PostsPath {
		return
	}
	n := 0
	if m := named.FindStringSubmatch(got.Plaintext); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	of := p.book.posts[n]
	known, _, _ := v.peer.Knows(ownOrigin)
	switch {
	case of == nil:
		p.book.fail("body", "%s got what nobody has posted: %.200q", v.Host, got.Body)
		return
	case known == "":
		return // it refuses what we send
	case len(got.Faults) > 0:
		p.book.fail("signed", "%s got post %d with faults: %v", v.Host, n, got.Faults)
		return
	}
	d := of.inboxes[v.peer.URL+got.Path]
	if a.Kind == Claims && d != nil {
		d.dropped = true // it says so, and the protocol believes it
	}
	if !a.takes() {
		return
	}
	follow := got.Path == sipherpeer.FollowsPath
	proven := a.Kind == Accepts || !follow && direct && (a.Kind == Nods || a.Kind == Forges)
	again := d != nil && len(d.accepted) > 0
	if proven && follow && d != nil && !again && v.Sipher.Accepted == "true" {
		d.accepts = true
	}
	p.book.accepted(p, v, request{host: v.Host, path: got.Path, post: true, n: n, body: []byte(got.Plaintext)}, !proven || again)
}

// between carries the requests of Sipher servers to each other. The scheduler does not hold them:
// they are a part of the answer to one of ours.
type between struct{ *sim }

// RoundTrip implements http.RoundTripper.
func (b between) RoundTrip(r *http.Request) (*http.Response, error) {
	v := b.servers[r.URL.Host]
	if v == nil || v.peer == nil {
		return nil, &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a := v.at(time.Since(b.began), r.URL.Path)
	switch a.Kind {
	case Hides, Closes:
		a = Answer{Kind: Accepts}
	case Refuses:
		return nil, syscall.ECONNREFUSED
	case Resets:
		return nil, syscall.ECONNRESET
	case Hangs:
		return nil, context.DeadlineExceeded
	}
	return v.exchange(b.relaying, a, r, request{host: v.Host, path: r.URL.Path, post: true, body: body}, false)
}

// hung records that a request ended because the server gave no answer.
func (v *server) hung(ctx context.Context, p *process, req request) {
	if !p.dead.Load() && !p.over.Load() && errors.Is(context.Cause(ctx), outbound.ErrTimeout) {
		v.faultedBy(p, req)
	}
}
