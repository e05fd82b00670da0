package wire

import (
	"fedpost/internal/protocol/sipher/crypto"
)

// ProxyHeaders are the fields of a request to a proxy.
func ProxyHeaders(origin string) []Header {
	return []Header{
		{"Content-Type", "application/json"},
		{"X-Federation-Origin", origin},
		{"Origin", origin},
	}
}

// ProxiedDelivery is the whole delivery request, as the target would get it directly. A proxy passes it
// on sealed.
func ProxiedDelivery(origin, targetURL, body string) (string, error) {
	// A struct, because the order and the case of the names are part of the signed text.
	type headers struct {
		ContentType string `json:"Content-Type"`
		Origin      string `json:"Origin"`
		From        string `json:"X-Federation-Origin"`
		To          string `json:"X-Federation-Target"`
	}
	return compact(struct {
		TargetURL string  `json:"targetUrl"`
		Method    string  `json:"method"`
		Headers   headers `json:"headers"`
		Body      string  `json:"body"`
	}{targetURL, "POST", headers{"application/json", origin, origin, targetURL}, body})
}

// ProxyRequest asks a proxy to pass an envelope on. It holds our keys for a target that does not know
// us yet.
type ProxyRequest struct {
	// Server is the target's server URL.
	Server string
	// PublicKey and EncryptionKey are our own.
	PublicKey, EncryptionKey string
	Sealed                   crypto.Envelope
	// Signature is our signature of the plaintext that is sealed.
	Signature string
}

// ProxyBody is the body of the request to a proxy.
func ProxyBody(r ProxyRequest) (string, error) {
	return compact(struct {
		Method        string          `json:"method"`
		TargetURL     string          `json:"targetUrl"`
		PublicKey     string          `json:"publicSigningKey"`
		EncryptionKey string          `json:"publicEncryptionKey"`
		Payload       crypto.Envelope `json:"payload"`
		Signature     string          `json:"signature"`
	}{proxyMethod, r.Server + "/proxy", r.PublicKey, r.EncryptionKey, r.Sealed, r.Signature})
}
