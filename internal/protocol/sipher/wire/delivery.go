package wire

import (
	"fedpost/internal/protocol/sipher/crypto"
)

// Header is one header field of a request.
type Header struct{ Name, Value string }

func DeliveryHeaders(origin, targetURL string) []Header {
	return []Header{
		{"Content-Type", "application/json"},
		{"Origin", origin},
		{"X-Federation-Origin", origin},
		{"X-Federation-Target", targetURL},
	}
}

// DeliveryBody is the body of a delivery: the sealed payload and the signature of its plaintext.
func DeliveryBody(m Method, sealed crypto.Envelope, signature string) (string, error) {
	return compact(struct {
		Method    Method          `json:"method"`
		Payload   crypto.Envelope `json:"payload"`
		Signature string          `json:"signature"`
	}{m, sealed, signature})
}
