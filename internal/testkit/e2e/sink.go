package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Sink is a number of servers that take everything without a look, and count it
// by user. It speaks just enough HTTP for that: at tens of thousands of requests
// a real server would be what is measured.
type Sink struct {
	got   []atomic.Int32
	hosts []string
	delay time.Duration
}

// NewSink starts servers on addresses of their own that answer, after a delay,
// for a number of users altogether.
func NewSink(t testing.TB, hosts, users int, delay time.Duration) *Sink {
	t.Helper()
	s := &Sink{got: make([]atomic.Int32, users), delay: delay}
	for range hosts {
		l := Listen(t)
		s.hosts = append(s.hosts, l.Addr().String())
		t.Cleanup(func() { l.Close() })
		go s.accept(t, l)
	}
	return s
}

// URLs are the inboxes of users from one to before another.
func (s *Sink) URLs(from, to int) []string {
	urls := make([]string, 0, to-from)
	for n := from; n < to; n++ {
		urls = append(urls, fmt.Sprintf("http://%s/users/%d", s.hosts[n%len(s.hosts)], n))
	}
	return urls
}

// Total is how many deliveries were taken.
func (s *Sink) Total() int {
	sum := 0
	for i := range s.got {
		sum += int(s.got[i].Load())
	}
	return sum
}

// NotOnce lists users who did not get exactly one delivery.
func (s *Sink) NotOnce() map[int]int {
	wrong := map[int]int{}
	for i := range s.got {
		if n := int(s.got[i].Load()); n != 1 {
			wrong[i] = n
		}
	}
	return wrong
}

func (s *Sink) accept(t testing.TB, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Errorf("sink: %v", err)
			return
		}
		go func() {
			defer conn.Close()
			// Senders hang up as they like, and probes try TLS first.
			if err := s.serve(conn); errors.Is(err, errUser) {
				t.Errorf("sink: %v", err)
			}
		}()
	}
}

var (
	errUser    = errors.New("there is no such user")
	errNotPOST = errors.New("no POST to a user")
)

func (s *Sink) serve(conn net.Conn) error {
	r := bufio.NewReader(conn)
	for {
		user, length, err := head(r)
		if err != nil {
			return err
		}
		if _, err := r.Discard(length); err != nil {
			return err
		}
		if user < 0 || user >= len(s.got) {
			return fmt.Errorf("%w: %d", errUser, user)
		}
		if s.delay > 0 {
			<-time.After(s.delay)
		}
		s.got[user].Add(1)
		if _, err := io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return err
		}
	}
}

// head reads the request line and the headers.
func head(r *bufio.Reader) (user, length int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	path, _, ok := bytes.Cut(bytes.TrimPrefix(line, []byte("POST /users/")), []byte(" HTTP/1.1"))
	if user, err = strconv.Atoi(string(path)); err != nil || !ok {
		return 0, 0, fmt.Errorf("%w: %q", errNotPOST, line)
	}
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, 0, err
		}
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		switch {
		case len(name) == 0:
			return user, length, nil
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, 0, err
			}
		}
	}
}

// Hanging starts servers that accept connections and never answer, and returns
// an inbox of each.
func Hanging(t testing.TB, hosts int) []string {
	t.Helper()
	urls := make([]string, hosts)
	for n := range urls {
		l := Listen(t)
		urls[n] = fmt.Sprintf("http://%s/inbox", l.Addr())
		var mu sync.Mutex
		var conns []net.Conn
		t.Cleanup(func() {
			l.Close()
			mu.Lock()
			defer mu.Unlock()
			for _, c := range conns {
				c.Close()
			}
		})
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return // closed
				}
				mu.Lock()
				conns = append(conns, conn)
				mu.Unlock()
			}
		}()
	}
	return urls
}
