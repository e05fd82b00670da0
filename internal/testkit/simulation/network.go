package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/sipherpeer"
)

// network carries a process's requests to the servers of strangers.
type network struct{ p *process }

var named = regexp.MustCompile(`"sim":(\d+),`)

// RoundTrip implements http.RoundTripper.
func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	p, ctx := n.p, r.Context()
	defer p.begins(attempts, 1)()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	req := request{host: r.URL.Host, path: r.URL.EscapedPath(), post: r.Method == http.MethodPost, body: body, form: r.Header.Get("Signature-Input") != ""}
	to := p.servers[req.host]
	if m := named.FindSubmatch(body); m != nil {
		req.n, _ = strconv.Atoi(string(m[1]))
	} else if to != nil && to.peer != nil && req.post {
		p.readSealed(to, &req)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if to != nil {
		if err := p.takes(ctx, to, req); err != nil {
			return nil, err
		}
	}
	var res *http.Response
	call := faults.Call{Target: "http", Op: r.Method, Entries: 1, About: fmt.Sprintf("%s%s %d %t", req.host, req.path, req.n, req.form)}
	err := p.Intercept(ctx, call, func(faults.Fault) (err error) {
		if to != nil && to.peer != nil {
			res, err = to.sipher(p, r, req)
			return err
		}
		if req.post {
			p.book.signed(p, r, body)
		}
		res, err = to.serve(p, req)
		return err
	})
	if errors.Is(err, errHangs) {
		h := &held{Call: faults.Call{Target: "http", Op: "hangs", About: call.About}, ctx: ctx, actor: actorOf(ctx), proc: p, when: func() time.Time { return time.Time{} }}
		p.hold(h)
		err = errorOr(ctx.Err(), faults.ErrDead)
		if to.peer != nil {
			to.hung(ctx, p, req)
		}
	}
	if errors.Is(err, faults.ErrDead) {
		return nil, net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	res.Request = r
	return res, nil
}

// request is one that reached a server.
type request struct {
	host, path string
	post       bool
	form       bool // signed by RFC 9421
	n          int  // of the post
	body       []byte
}

var errHangs = errors.New("no answer")

// server is a Server in a story.
type server struct {
	Server
	minute time.Time
	count  int
	// once are the answers that were given once.
	once map[Answer]bool

	// peer answers if it speaks Sipher. The maps count the tries of each post that reached it,
	// requests for its card, those by scheduled runs alone, deliveries without an answer, those
	// without because we could not find it, and its own registrations.
	peer                                      *sipherpeer.Peer
	tries                                     map[int]int
	asked, checks, faults, hidden, registered int
	// checkedAt is when the last check of it began.
	checkedAt time.Duration
}

func (s *server) serve(p *process, r request) (*http.Response, error) {
	if s == nil {
		return nil, &net.DNSError{Err: "no such host", Name: r.host, IsNotFound: true}
	}
	since := time.Since(p.began)
	a := s.at(since, r.path)
	if a.Once && s.once[a] {
		a = Answer{Kind: Accepts}
	} else if a.Once && r.post {
		s.once[a] = true
	}
	if a.Kind == Accepts && s.Rate > 0 && r.post {
		if now := time.Now(); now.Sub(s.minute) >= time.Minute {
			s.minute, s.count = now, 0
		}
		if s.count++; s.count > s.Rate {
			a = Answer{Kind: Says, Status: http.StatusTooManyRequests}
		}
	}
	p.book.requested(p, s, r, a)
	switch a.Kind {
	case Accepts:
		return s.accept(p, r)
	case Swallows:
		if r.post {
			p.book.accepted(p, s, r, true)
		}
		return nil, syscall.ECONNRESET
	case Refuses:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Resets:
		return nil, syscall.ECONNRESET
	case Hangs:
		return nil, errHangs
	case Rants:
		// As net/http says it, which quotes what it could not read.
		return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: malformed MIME header: missing colon: %q", s.rant(p))
	case Floods:
		return response(http.StatusInternalServerError, "", strings.Repeat("\x00\x1b\u202e\U0001F4A9\xff", 20_000)), nil
	}
	return response(a.Status, a.RetryAfter, "no"), nil
}

// rant is 64 KiB of random text, which no compression makes small.
func (s *server) rant(p *process) string {
	b := make([]byte, 64<<10)
	r := rand.New(rand.NewPCG(p.draw("rant", s.Host, fmt.Sprint(p.book.requests)), 1))
	for i := range b {
		b[i] = byte(' ' + r.IntN(95))
	}
	return "\x1b[2J\uFFFE" + string(b)
}

// accept accepts a request, and records it.
func (s *server) accept(p *process, r request) (*http.Response, error) {
	if !r.post {
		return response(http.StatusNotFound, "", ""), nil // there is no node info, but a server
	}
	if s.Strict && !r.form {
		p.book.dropped(s, r)
		return response(http.StatusAccepted, "", ""), nil
	}
	p.book.accepted(p, s, r, false)
	return response(http.StatusAccepted, "", ""), nil
}

// at is how the server behaves to an inbox at a time.
func (s Server) at(since time.Duration, path string) Answer {
	if a := phaseAt(s.Phases, since); a.Kind != Accepts || a.Takes > 0 {
		return a
	}
	return phaseAt(s.Inboxes[path], since)
}

func phaseAt(ps []Phase, since time.Duration) Answer {
	a := Answer{Kind: Accepts}
	for _, p := range ps {
		if p.From <= since {
			a = p.Answer
		}
	}
	return a
}

func response(status int, retryAfter, body string) *http.Response {
	h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	if retryAfter != "" {
		h.Set("Retry-After", strings.ReplaceAll(retryAfter, "DATE", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)))
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
