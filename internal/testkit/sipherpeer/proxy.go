package sipherpeer

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
)

// serveProxy plays both ends of a detour: the proxy that passes an envelope on, and the
// target that receives the envelope.
func (p *Peer) serveProxy(w http.ResponseWriter, r *http.Request, got Received) {
	var m struct {
		Method        string          `json:"method"`
		TargetURL     string          `json:"targetUrl"`
		PublicKey     string          `json:"publicSigningKey"`
		EncryptionKey string          `json:"publicEncryptionKey"`
		Payload       json.RawMessage `json:"payload"`
		Signature     string          `json:"signature"`
	}
	if err := json.Unmarshal([]byte(got.Body), &m); err != nil {
		got.Faults = append(got.Faults, "body: "+err.Error())
	}
	if m.Method == "TARGETED" {
		p.targeted(w, r, got, m.Payload)
		return
	}
	if m.Method != "PROXY" || m.TargetURL == "" || m.PublicKey == "" || m.EncryptionKey == "" || m.Signature == "" ||
		got.Header.Get("Origin") == "" || got.Header.Get("Origin") != got.Header.Get("X-Federation-Origin") {
		got.Faults = append(got.Faults, "not a request to a proxy")
	}
	p.record(got)
	b := p.behavior()
	switch {
	case len(got.Faults) > 0:
		refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
	case b.Hang:
		<-r.Context().Done()
	case b.Reset:
		drop(w)
	case b.ProxyStatus != 0 && b.ProxyBody != "":
		plain(w, b.ProxyStatus, b.ProxyBody)
	case b.ProxyStatus != 0:
		refuse(w, b.ProxyStatus, "PROXY_FAILED")
	case b.ProxyBody != "":
		plain(w, http.StatusOK, b.ProxyBody)
	default:
		p.passOn(w, m.TargetURL, r.Header.Get("Origin"), m.Payload)
	}
}

// passOn is the proxy's own request.
func (p *Peer) passOn(w http.ResponseWriter, target, sender string, envelope json.RawMessage) {
	body, err := json.Marshal(map[string]any{"method": "TARGETED", "payload": envelope})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "PROXY_FAILED")
		return
	}
	status, answered, err := p.post(target, map[string]string{
		"X-Federation-Origin": p.URL, "Origin": p.URL, "X-Federation-Sender": sender,
	}, string(body))
	if err != nil || status/100 == 5 || !json.Valid([]byte(answered)) {
		refuse(w, http.StatusBadGateway, "TARGET_UNREACHABLE")
		return
	}
	if status/100 != 2 {
		// The target's own refusal, code included.
		plain(w, status, answered)
		return
	}
	answer(w, http.StatusOK, map[string]any{"method": "PROXY_RESPONSE", "payload": json.RawMessage(answered)})
}

func (p *Peer) post(url string, header map[string]string, body string) (int, string, error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// targeted opens an envelope that a proxy passed on, and replays the request
// that is in it.
func (p *Peer) targeted(w http.ResponseWriter, r *http.Request, got Received, raw json.RawMessage) {
	var e sealed
	var inner struct {
		TargetURL string            `json:"targetUrl"`
		Method    string            `json:"method"`
		Headers   map[string]string `json:"headers"`
		Body      string            `json:"body"`
	}
	p.mu.Lock()
	k := p.keys
	p.mu.Unlock()
	err := json.Unmarshal(raw, &e)
	var plaintext string
	if err == nil {
		plaintext, err = k.open(e)
	}
	if err == nil {
		err = json.Unmarshal([]byte(plaintext), &inner)
	}
	var u *url.URL
	if err == nil {
		u, err = url.Parse(inner.TargetURL)
	}
	if err != nil || inner.Method != http.MethodPost || len(inner.Headers) != 4 {
		got.Faults = append(got.Faults, "sealed request does not open")
		p.record(got)
		refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
		return
	}
	header := http.Header{}
	for name, v := range inner.Headers {
		if http.CanonicalHeaderKey(name) != name {
			got.Faults = append(got.Faults, "header name "+name+" is written in another case")
		}
		header.Set(name, v)
	}
	b := p.behavior()
	// An acknowledgement through a proxy is sent bare, without an envelope.
	if b.Form == Wrapped {
		b.Form = Inline
	}
	rec := httptest.NewRecorder()
	p.deliver(rec, r, b, Received{
		Method: inner.Method, Path: u.Path, Header: header, Body: inner.Body, Faults: got.Faults, Proxied: true,
	})
	for name, v := range rec.Header() {
		w.Header()[name] = v
	}
	plain(w, rec.Code, rec.Body.String())
}

// Read opens the body of a delivery to the peer, or of a request to pass one on, and
// returns the plaintext of the delivery; "" if it does not open.
func (p *Peer) Read(body string) string {
	var outer struct {
		Payload sealed `json:"payload"`
	}
	if json.Unmarshal([]byte(body), &outer) != nil {
		return ""
	}
	p.mu.Lock()
	k := p.keys
	p.mu.Unlock()
	plaintext, err := k.open(outer.Payload)
	if err != nil {
		return ""
	}
	var passed struct {
		Body string `json:"body"`
	}
	if json.Unmarshal([]byte(plaintext), &passed) == nil && passed.Body != "" {
		return p.Read(passed.Body)
	}
	return plaintext
}
