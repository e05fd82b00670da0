package outbound

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestASecondActivityFindsAConnectionToEachHost sends to 300 hosts twice.
func TestASecondActivityFindsAConnectionToEachHost(t *testing.T) {
	const hosts = 300
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	s.Config.ConnState = countNew(&conns)
	s.Start()
	defer s.Close()
	names := zone{}
	for h := range hosts {
		names[fmt.Sprintf("h%d.test", h)] = []string{"127.0.0.1"}
	}
	for idle, want := range map[int]int64{hosts: hosts, 0: 2 * hosts} {
		conns.Store(0)
		client := trial(t, func(c *Config) { c.Resolver, c.Timeout, c.Idle = directory(names), time.Minute, idle })
		for range 2 {
			for h := range hosts {
				if _, err := post(t, client, fmt.Sprintf("http://h%d.test:%s/", h, portOf(t, s.URL))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := conns.Load(); n != want {
			t.Errorf("%d connections with %d kept, want %d", n, idle, want)
		}
	}
}

// countNew counts the connections that a server gets.
func countNew(n *atomic.Int64) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
}
