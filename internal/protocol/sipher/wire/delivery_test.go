package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/protocol/sipher/wire"
)

func TestDeliveryRequestMatchesTheVectorByteForByte(t *testing.T) {
	v := vectors(t)
	a := v.server(t, "A")
	p, err := wire.ParsePayload(v.Follow.Job.Payload)
	if err != nil {
		t.Fatal(err)
	}
	body, err := wire.DeliveryBody(p.Method, v.Follow.Encryption.Envelope, a.Sign(v.Follow.Job.Payload))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v.Follow.Request.Body, body); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(v.Follow.Request.Headers, wire.DeliveryHeaders(a.Origin, v.Follow.Job.TargetURL)); d != "" {
		t.Error(d)
	}
}

func TestProxyRequestMatchesTheVectorByteForByte(t *testing.T) {
	v := vectors(t)
	a := v.server(t, "A")
	inner, err := wire.ProxiedDelivery(a.Origin, v.Follow.Job.TargetURL, v.Follow.Request.Body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v.Proxy.Inner, inner); d != "" {
		t.Error(d)
	}
	own := wire.Card{PublicKey: a.PublicKey, EncryptionKey: a.EncryptionKey}
	body, err := wire.ProxyBody(v.Follow.Job.ServerURL, own, v.Proxy.Encryption.Envelope, a.Sign(inner))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(v.Proxy.Request.Body, body); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(v.Proxy.Request.Headers, wire.ProxyHeaders(a.Origin)); d != "" {
		t.Error(d)
	}
}

func TestProxiedDeliveryKeepsURLsAsTheyAre(t *testing.T) {
	inner, err := wire.ProxiedDelivery("https://a.example", "https://b.example/x?a=1&b=<2>", "{}")
	if err != nil || !bytes.Contains([]byte(inner), []byte(`"targetUrl":"https://b.example/x?a=1&b=<2>"`)) {
		t.Errorf("the delivery is %s, error %v; want the target's URL as it is", inner, err)
	}
}

func compactJSON(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiscoveryDocumentsMatchTheVectors(t *testing.T) {
	v := vectors(t)
	a, b := v.server(t, "A"), v.server(t, "B")
	cardA := wire.Card{URL: a.Origin, PublicKey: a.PublicKey, EncryptionKey: a.EncryptionKey}
	cardB := wire.Card{URL: b.Origin, PublicKey: b.PublicKey, EncryptionKey: b.EncryptionKey}
	for name, c := range map[string]struct {
		want json.RawMessage
		got  any
	}{
		"answer":       {v.Discover.Get, wire.Discovery{Card: cardB, Peers: []wire.Peer{{URL: "https://p.example", IsHealthy: true}}}},
		"registration": {v.Discover.Response, wire.Registered{Message: "Server registered successfully", Echo: cardB}},
	} {
		got, err := json.Marshal(c.got)
		if err != nil || string(got) != compactJSON(t, c.want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	body, err := wire.RegistrationBody(cardA)
	if err != nil || body != compactJSON(t, v.Discover.Register) {
		t.Errorf("the registration is %s, error %v; want the fixture's", body, err)
	}
	if got, err := wire.ParseRegistration([]byte(body)); err != nil || got != cardA {
		t.Errorf("the registration is of %v, error %v; want %v", got, err, cardA)
	}
	got, err := wire.ParseDiscovery(v.Discover.Get)
	if err != nil || !got.SameKeys(cardB) || got.SameKeys(cardA) {
		t.Errorf("the answer is of %v, error %v; want the keys of B, and not of A", got, err)
	}
}
