package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
)

// TestFaultsHaveTheirReason runs every fault that a host can produce on a real
// connection.
func TestFaultsHaveTheirReason(t *testing.T) {
	short := func(c *Config) { c.Timeout = 150 * time.Millisecond }
	for _, c := range []struct {
		name   string
		serve  func(net.Conn)
		config func(*Config)
		want   outcome.Reason
	}{
		{"resets the connection", afterRequest(func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }), nil, outcome.ConnReset},
		{"closes without an answer", afterRequest(func(net.Conn) {}), nil, outcome.ConnReset},
		{"closes within the header", say("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), nil, outcome.ConnReset},
		{"never answers", afterRequest(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }), short, outcome.Timeout},
		{"answers too late for its header's share", afterRequest(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }),
			func(c *Config) { c.Header = 50 * time.Millisecond }, outcome.Timeout},
		{"dribbles a header", forever("HTTP/1.1 200 OK\r\n", "X: y\r\n", 20*time.Millisecond), short, outcome.Timeout},
		{"is not HTTP", say("SSH-2.0-OpenSSH_9.6\r\n"), nil, outcome.InvalidAnswer},
		{"speaks garbage", say("\x00\xff\x16garbage garbage garbage\r\n\r\n"), nil, outcome.InvalidAnswer},
		{"has a status that is no number", say("HTTP/1.1 two hundred\r\n\r\n"), nil, outcome.InvalidAnswer},
		{"has a header without colon", say("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), nil, outcome.InvalidAnswer},
		{"has two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), nil, outcome.InvalidAnswer},
		{"has a header of 10 MB", forever("HTTP/1.1 200 OK\r\n", "X-Y: "+strings.Repeat("z", 1<<20)+"\r\n", 0), nil, outcome.InvalidAnswer},
		{"has a header line without end", forever("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("z", 1<<16), 0), nil, outcome.InvalidAnswer},
		{"sends early hints for ever", forever("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0), nil, outcome.InvalidAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			a, err := post(t, trial(t, c.config), "http://"+listen(t, c.serve)+"/inbox")
			if got := ReasonOf(err); got != c.want {
				t.Errorf("reason %q, want %q: %v %+v", got, c.want, err, a)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestRefusedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = post(t, trial(t, nil), "http://"+l.Addr().String())
	if got := ReasonOf(err); got != outcome.ConnRefused {
		t.Errorf("reason %q: %v", got, err)
	}
}

// TestStatusHoldsWhateverTheBodyDoes: the answer was 200, so the activity is
// delivered, and sending it again would deliver it twice.
func TestStatusHoldsWhateverTheBodyDoes(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		is    error // nil: any
		body  string
	}{
		{"endless", forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1<<14), 0), ErrTooLong, strings.Repeat("x", MaxBody)},
		{"slow", forever("HTTP/1.1 200 OK\r\n\r\nx", "", 20*time.Millisecond), ErrTimeout, "x"},
		{"cut short", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), nil, "abc"},
		{"in broken chunks", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), nil, "abc"},
		{"reset", afterRequest(func(conn net.Conn) {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := trial(t, func(c *Config) { c.Body = 200 * time.Millisecond })
			a, err := post(t, client, "http://"+listen(t, c.serve)+"/inbox")
			if err != nil {
				t.Fatal(err)
			}
			if a.Status != 200 || string(a.Body) != c.body || a.BodyErr == nil || (c.is != nil && !errors.Is(a.BodyErr, c.is)) {
				t.Errorf("status %d, %d bytes, %v", a.Status, len(a.Body), a.BodyErr)
			}
		})
	}
}

// TestHostileAnswersCostLittleMemory bounds what 20 hosts at once, each with an
// endless header, body or gzip bomb, can make us hold.
func TestHostileAnswersCostLittleMemory(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	client := trial(t, nil)
	urls := []string{
		"http://" + listen(t, forever("HTTP/1.1 200 OK\r\n", "X-Y: "+strings.Repeat("z", 1<<20)+"\r\n", 0)),
		"http://" + listen(t, forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1<<20), 0)),
		"http://" + listen(t, say("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"+bomb.String())),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	for i := range 20 {
		go func() {
			_, _ = post(t, client, urls[i%len(urls)])
			done <- struct{}{}
		}()
	}
	for range 20 {
		<-done
	}
	runtime.ReadMemStats(&after)
	// ReadAll grows its buffer by halves, so 64 KiB cost some 300 KiB in all.
	if total := after.TotalAlloc - before.TotalAlloc; total > 16<<20 {
		t.Errorf("allocated %d MiB", total>>20)
	} else {
		t.Logf("%d KiB per request", total/20>>10)
	}
}

func TestGzipIsNotAskedForNorUnpacked(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	z.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := r.Header.Get("Accept-Encoding"); e != "" {
			t.Errorf("Accept-Encoding: %s", e)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	defer s.Close()
	a, err := post(t, trial(t, nil), s.URL)
	if err != nil || !bytes.Equal(a.Body, packed.Bytes()) {
		t.Errorf("%q %v", a.Body, err)
	}
}

// TestWhoStopped tells our own end from the host's: only one of them is its fault.
func TestWhoStopped(t *testing.T) {
	address := listen(t, afterRequest(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }))
	for _, c := range []struct {
		name  string
		cause error
		is    error
		want  outcome.Reason
	}{
		{"shutdown", errors.New("shutting down"), ErrStopped, outcome.OtherTrouble},
		{"our own deadline", context.DeadlineExceeded, ErrStopped, outcome.OtherTrouble},
		{"several requests' common time is up", ErrTimeout, ErrTimeout, outcome.Timeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			timer := time.AfterFunc(50*time.Millisecond, func() { cancel(c.cause) })
			defer timer.Stop()
			r, err := NewRequest(ctx, http.MethodPost, "http://"+address, "x")
			if err != nil {
				t.Fatal(err)
			}
			_, err = trial(t, nil).Do(ctx, r)
			if !errors.Is(err, c.is) || !errors.Is(err, c.cause) || ReasonOf(err) != c.want {
				t.Errorf("%v, reason %q", err, ReasonOf(err))
			}
		})
	}
}
