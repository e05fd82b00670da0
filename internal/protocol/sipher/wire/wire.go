// Package wire is the documents that Sipher servers exchange: payloads, deliveries byte for byte,
// acknowledgements in both forms that are in use, discovery, registration, and requests to proxies.
//
// Nearly all text comes from strangers, so names are matched exactly (encoding/json would take "Method"
// for "method"), types are checked, and every parser is fuzzed. There is no I/O.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// DeliverFollow is the one job name that has a meaning in the protocol. Others, such as deliver-post,
// are delivered too.
const DeliverFollow = "deliver-follow"

// Method is what a payload asks its receiver to do.
type Method string

// The methods that may be queued and sent. Real servers accept the first two and answer the others with
// 400 or 501.
const (
	Federate     Method = "FEDERATE"
	FederatePost Method = "FEDERATE_POST"
	Insert       Method = "INSERT"
	Unfollow     Method = "UNFOLLOW"
)

// Valid reports whether m may be sent. Methods are case-sensitive.
func (m Method) Valid() bool {
	return m == Federate || m == FederatePost || m == Insert || m == Unfollow
}

const (
	proxyMethod    = "PROXY"
	responseMethod = "PROXY_RESPONSE"
	registerMethod = "REGISTER"
	acknowledged   = "acknowledged"
)

var errNotObject = errors.New("not a JSON object")

// object reads a JSON object's members by their exact names.
func object(raw []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotObject, err)
	}
	if m == nil { // the literal null
		return nil, errNotObject
	}
	return m, nil
}

// text returns a member that is a string.
func text(m map[string]json.RawMessage, name string) (string, bool) {
	v := m[name]
	if len(v) == 0 || v[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err == nil
}

// member is a member that has to be a string, and where its text goes.
type member struct {
	name string
	into *string
}

func texts(m map[string]json.RawMessage, members ...member) error {
	for _, s := range members {
		v, ok := text(m, s.name)
		if !ok {
			return fmt.Errorf("%s is missing or not a string", s.name)
		}
		*s.into = v
	}
	return nil
}

// isNull reports whether a member is there and null.
func isNull(m map[string]json.RawMessage, name string) bool {
	return string(m[name]) == "null"
}

// flag returns a member that is true or false, nil if it is anything else.
func flag(m map[string]json.RawMessage, name string) *bool {
	switch string(m[name]) {
	case "true", "false":
		b := string(m[name]) == "true"
		return &b
	}
	return nil
}

// compact writes v as the protocol's JSON: no white space, and <, > and & as they are.
func compact(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("write a sipher document: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}
