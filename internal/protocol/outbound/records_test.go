package outbound

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"

	"fedpost/internal/activity/outcome"
)

// TestAHostThatAnswersWithoutTLSIsAtFault: a host that takes a request and answers it with records
// that are none of TLS is at fault. As a fault of this machine, the attempt would count as
// nothing, and be repeated without end.
func TestAHostThatAnswersWithoutTLSIsAtFault(t *testing.T) {
	cert, authorities := certificate(t)
	for name, records := range map[string][]byte{
		"plain HTTP":           []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"another version":      {23, 2, 0, 0, 1, 0},
		"an oversized record":  {23, 3, 3, 0xff, 0xff},
		"a record that is bad": garbage(nil, ""),
		"ignored records":      bytes.Repeat([]byte{20, 3, 3, 0, 1, 1}, 20),
	} {
		want := outcome.InvalidAnswer
		if name == "a record that is bad" {
			want = outcome.OtherTrouble // to crypto/tls a local error
		}
		t.Run(name, func(t *testing.T) {
			address := listen(t, func(raw net.Conn) {
				conn := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
				afterRequest(func(net.Conn) {
					_, _ = raw.Write(records)
					_, _ = raw.Read(make([]byte, 1))
				})(conn)
			})
			client := trial(t, func(c *Config) {
				c.RootCAs, c.Resolver = authorities, directory(zone{"a.hosts.test": {"127.0.0.1"}})
			})
			_, err := post(t, client, "https://a.hosts.test:"+portOf(t, "http://"+address)+"/inbox")
			if o := Failure(err); o.Vain() != 1 || o.Reason != want {
				t.Errorf("counts as %d requests in vain, want 1; reason %q, want %q: %v", o.Vain(), o.Reason, want, err)
			}
		})
	}
}
