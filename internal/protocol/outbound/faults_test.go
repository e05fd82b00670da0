package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/activity/outcome"
)

// TestFaultsHaveTheirReason runs every fault that a host can produce on a real
// connection.
func TestFaultsHaveTheirReason(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		want  outcome.Reason
	}{
		{"resets the connection", afterRequest(func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) }), outcome.ConnReset},
		{"closes without an answer", afterRequest(func(net.Conn) {}), outcome.ConnReset},
		{"closes within the status", say("HTTP/1.1 200 OK"), outcome.ConnReset},
		{"is not HTTP", say("SSH-2.0-OpenSSH_9.6\r\n"), outcome.InvalidAnswer},
		{"speaks garbage", say("\x00\xff\x16garbage garbage garbage\r\n\r\n"), outcome.InvalidAnswer},
		{"has a status that is no number", say("HTTP/1.1 two hundred\r\n\r\n"), outcome.InvalidAnswer},
		{"has no version", say("HTTP 200 OK\r\n\r\n"), outcome.InvalidAnswer},
		{"has a status of four digits", say("HTTP/1.1 2000 OK\r\n\r\n"), outcome.InvalidAnswer},
		{"has an interim header of 10 MB", forever("HTTP/1.1 103 Early Hints\r\n", "X-Y: "+strings.Repeat("z", 1<<20)+"\r\n", 0), outcome.InvalidAnswer},
		{"has a status line without end", forever("HTTP/1.1 200 ", strings.Repeat("z", 1<<16), 0), outcome.InvalidAnswer},
		{"sends early hints for ever", forever("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0), outcome.InvalidAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := post(t, trial(t, nil), "http://"+listen(t, c.serve)+"/inbox")
			if got := ReasonOf(err); got != c.want {
				t.Errorf("reason %q, want %q: %v %+v", got, c.want, err, a)
			}
		})
	}
}

func TestRefusedPort(t *testing.T) {
	_, err := post(t, trial(t, nil), "http://127.0.0.1:1")
	if got := ReasonOf(err); got != outcome.ConnRefused {
		t.Errorf("reason %q: %v", got, err)
	}
}

// TestAHostTakesNoLongerThanItGets: a host that answers slowly, or not at all, ends with its
// time, and a status that came holds.
func TestAHostTakesNoLongerThanItGets(t *testing.T) {
	const all, body = time.Second, 200 * time.Millisecond
	const pause = 30 * time.Millisecond
	for _, c := range []struct {
		name   string
		serve  func(net.Conn)
		status int // 0: the request times out
		body   string
		takes  time.Duration
	}{
		{"never answers", afterRequest(func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }), 0, "", all},
		{"never reads", func(net.Conn) { time.Sleep(2 * all) }, 0, "", all},
		{"dribbles an interim header", forever("HTTP/1.1 102 Processing\r\n", "X: y\r\n", pause), 0, "", all},
		{"dribbles the header", forever("HTTP/1.1 200 OK\r\n", "X: y\r\n", pause), 200, "", all},
		{"begins the body", forever("HTTP/1.1 200 OK\r\n\r\nx", "", pause), 200, "x", body},
		{"dribbles the body", forever("HTTP/1.1 200 OK\r\n\r\n", "x", pause), 200, "xxxxxx", body},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := trial(t, func(c *Config) { c.Timeout, c.Body = all, body })
				pipe(client, c.serve)
				began := time.Now()
				a, err := post(t, client, "http://a.hosts.test/inbox")
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
				switch {
				case c.status == 0:
					if ReasonOf(err) != outcome.Timeout {
						t.Errorf("reason %q: %v %+v", ReasonOf(err), err, a)
					}
				case err != nil || a.Status != c.status || string(a.Body) != c.body || !errors.Is(a.BodyErr, ErrTimeout):
					t.Errorf("status %d, body %q, %v, %v", a.Status, a.Body, a.BodyErr, err)
				}
				client.transport.(*pool).closeIdle()
				time.Sleep(2 * all) // virtual: the host ends
			})
		})
	}
}

// TestStatusHoldsWhateverFollows: the answer was 200, so the activity is
// delivered, and sending it again would deliver it twice.
func TestStatusHoldsWhateverFollows(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(net.Conn)
		is    error // nil: any
		body  string
	}{
		{"endless", forever("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1<<14), 0), ErrTooLong, strings.Repeat("x", MaxBody)},
		{"cut short", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), nil, "abc"},
		{"in broken chunks", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), nil, "abc"},
		{"reset", afterRequest(func(conn net.Conn) {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}), nil, ""},
		{"cut short in the header", say("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), io.ErrUnexpectedEOF, ""},
		{"cut short after the status", say("HTTP/1.1 200 OK\r\n"), io.ErrUnexpectedEOF, ""},
		{"reset in the header", afterRequest(func(conn net.Conn) {
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nX: y\r\n"))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}), io.ErrUnexpectedEOF, ""},
		{"with a header without colon", say("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), nil, ""},
		{"with two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), nil, ""},
		{"with a header of 10 MB", forever("HTTP/1.1 200 OK\r\n", "X-Y: "+strings.Repeat("z", 1<<20)+"\r\n", 0), nil, ""},
		{"with a header line without end", forever("HTTP/1.1 200 OK\r\nX: ", strings.Repeat("z", 1<<16), 0), nil, ""},
		{"after an interim answer", say("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), nil, ""},
		{"before the request was read", func(conn net.Conn) {
			// Closing with bytes unread resets the connection: a later write fails.
			_, _ = io.ReadFull(conn, make([]byte, 100))
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"))
		}, nil, "ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := trial(t, nil)
			r, err := NewRequest(t.Context(), http.MethodPost, "http://"+listen(t, c.serve)+"/inbox", strings.Repeat("x", 4<<20))
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Do(t.Context(), r)
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

// TestWhoStopped: a request that we stop is not the host's fault; one that runs out of time is.
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

// TestSwitchingProtocolsIsAnAnswerWithoutBody: net/http hands the bare connection
// over as the body, which a request's end does not close.
func TestSwitchingProtocolsIsAnAnswerWithoutBody(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	url := "http://" + listen(t, afterRequest(func(conn net.Conn) {
		_, _ = conn.Write([]byte(answer))
		_, _ = conn.Read(make([]byte, 1))
	}))
	done := make(chan Answer)
	go func() {
		a, err := post(t, trial(t, nil), url)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	select {
	case a := <-done:
		if a.Status != http.StatusSwitchingProtocols || len(a.Body) > 0 {
			t.Errorf("status %d, body %q", a.Status, a.Body)
		}
	case <-time.After(20 * time.Second):
		t.Error("the request has no end")
	}
}
