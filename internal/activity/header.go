package activity

import (
	"encoding/json"
	"fmt"
)

// Header is a header that a caller adds to the requests of a delivery, such as Collection-Synchronization
// (FEP-8fcf). Enqueue has checked that it is well formed and none that fedpost or HTTP itself needs.
type Header struct {
	Name  string `json:"n"`
	Value string `json:"v"`
	// Sign says that the signature covers the header.
	Sign bool `json:"s,omitempty"`
}

// Headers is a list of headers as JSON; empty for none. As a string it can be compared like other values.
type Headers string

// NewHeaders returns hs as Headers.
func NewHeaders(hs []Header) (Headers, error) {
	if len(hs) == 0 {
		return "", nil
	}
	b, err := json.Marshal(hs)
	if err != nil {
		return "", fmt.Errorf("encode headers: %w", err)
	}
	return Headers(b), nil
}

func (h Headers) List() (hs []Header, err error) {
	if h == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(h), &hs); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	return hs, nil
}
