package wire

import (
	"fmt"
	"net/http"

	"fedpost/internal/protocol/sipher/crypto"
)

func DeliveryHeaders(origin, targetURL string) map[string]string {
	h := ProxyHeaders(origin)
	h["X-Federation-Target"] = targetURL
	return h
}

// ParseEnvelope reads an envelope that a remote server wrote; unknown members are ignored. The error wraps
// crypto.ErrOpen.
func ParseEnvelope(raw []byte) (e crypto.Envelope, err error) {
	m, err := object(raw)
	if err != nil {
		return e, fmt.Errorf("%w: %w", crypto.ErrOpen, errNotObject)
	}
	err = texts(m, member{"ephemeralPublicKey", &e.EphemeralPublicKey}, member{"iv", &e.IV},
		member{"ciphertext", &e.Ciphertext}, member{"authTag", &e.AuthTag})
	if err != nil {
		return crypto.Envelope{}, fmt.Errorf("%w: %w", crypto.ErrOpen, err)
	}
	return e, nil
}

// DeliveryBody is the body of a delivery: the sealed payload and the signature of its plaintext.
func DeliveryBody(m Method, sealed crypto.Envelope, signature string) (string, error) {
	return compact(struct {
		Method    Method          `json:"method"`
		Payload   crypto.Envelope `json:"payload"`
		Signature string          `json:"signature"`
	}{m, sealed, signature})
}

func ProxyHeaders(origin string) map[string]string {
	return map[string]string{"Content-Type": "application/json", "Origin": origin, "X-Federation-Origin": origin}
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

// ProxyBody is the body of the request to a proxy to pass a sealed text on to the server at url. It holds
// our own card, for a target that does not know us yet, and our signature of the text.
func ProxyBody(url string, own Card, sealed crypto.Envelope, signature string) (string, error) {
	return compact(struct {
		Method        string          `json:"method"`
		TargetURL     string          `json:"targetUrl"`
		PublicKey     string          `json:"publicSigningKey"`
		EncryptionKey string          `json:"publicEncryptionKey"`
		Payload       crypto.Envelope `json:"payload"`
		Signature     string          `json:"signature"`
	}{proxyMethod, url + "/proxy", own.PublicKey, own.EncryptionKey, sealed, signature})
}

// The codes with which a receiver says that it has the post or follow already.
const (
	followExists = "FOLLOW_ALREADY_EXISTS"
	postExists   = "FEDERATED_POST_ALREADY_EXISTS"
)

// AlreadyThere reports whether an answer says that the receiver has what was sent. After an earlier
// try, the acknowledgement of that try was lost.
func AlreadyThere(status int, body []byte) bool {
	if status != http.StatusConflict {
		return false
	}
	m, err := object(body)
	if err != nil {
		return false
	}
	code, _ := text(m, "code")
	return code == followExists || code == postExists
}
