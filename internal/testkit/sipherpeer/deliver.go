package sipherpeer

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
)

func readAll(r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	return string(b)
}

// drop ends the connection without an answer, with a reset where the transport
// has such a thing.
func drop(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// With nothing to linger for, closing sends RST instead of FIN.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// deliver handles one delivery as a real server would, except for the deviations in b.
func (p *Peer) deliver(w http.ResponseWriter, r *http.Request, b Behavior, got Received) {
	if b.Hang || b.Reset {
		p.record(got)
		if b.Hang {
			<-r.Context().Done()
		}
		drop(w)
		return
	}
	d := p.open(&got)
	p.record(got)
	switch {
	case b.Status != 0 && (b.Status < 200 || b.Status > 299):
		if b.Body != "" {
			plain(w, b.Status, b.Body)
			return
		}
		refuse(w, b.Status, b.Code)
		return
	case len(got.Faults) > 0:
		answer(w, http.StatusBadRequest, map[string]any{"error": got.Faults, "code": "INVALID_REQUEST"})
		return
	}
	if code := p.takeIn(d); code != "" {
		refuse(w, http.StatusConflict, code)
		return
	}
	if b.Lose {
		drop(w)
		return
	}
	p.acknowledge(w, b, d)
}

// delivery is an opened delivery.
type delivery struct {
	from      card
	method    string
	plaintext string
	following map[string]any
	post      map[string]any
}

// open checks everything about a delivery that a server can see.
func (p *Peer) open(got *Received) delivery {
	fault := func(what string) { got.Faults = append(got.Faults, what) }
	target := p.URL + got.Path
	h := got.Header
	from := h.Get("X-Federation-Origin")
	if h.Get("Content-Type") != "application/json" {
		fault("Content-Type is not application/json")
	}
	if h.Get("Origin") != from || from == "" {
		fault("Origin and X-Federation-Origin differ")
	}
	if h.Get("X-Federation-Target") != target {
		fault("X-Federation-Target is not " + target)
	}
	if h.Get("Cookie") != "" {
		fault("there is a cookie")
	}
	var outer struct {
		Method    string `json:"method"`
		Payload   sealed `json:"payload"`
		Signature string `json:"signature"`
	}
	if err := json.Unmarshal([]byte(got.Body), &outer); err != nil {
		fault("body: " + err.Error())
		return delivery{}
	}
	p.mu.Lock()
	sender, known := p.registered[from]
	k := p.keys
	p.mu.Unlock()
	if !known {
		fault("sender is not registered")
	}
	var err error
	if got.Plaintext, err = k.open(outer.Payload); err != nil {
		fault("envelope: " + err.Error())
		return delivery{}
	}
	if got.Signed = verify(sender.PublicKey, got.Plaintext, outer.Signature); !got.Signed {
		fault("signature does not verify")
	}
	var inner struct {
		Method    string         `json:"method"`
		URL       string         `json:"federationUrl"`
		Following map[string]any `json:"following"`
		Post      map[string]any `json:"post"`
	}
	if err := json.Unmarshal([]byte(got.Plaintext), &inner); err != nil {
		fault("plaintext: " + err.Error())
		return delivery{}
	}
	if inner.Method != outer.Method {
		fault("the method outside is not the one inside")
	}
	want := map[string]string{FollowsPath: "FEDERATE", PostsPath: "FEDERATE_POST"}[got.Path]
	if inner.Method != want {
		fault("method is not " + want)
	}
	return delivery{from: sender, method: inner.Method, plaintext: got.Plaintext, following: inner.Following, post: inner.Post}
}

// takeIn stores the delivered object. If the object is stored already, takeIn returns
// the code of the conflict.
func (p *Peer) takeIn(d delivery) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.method == "FEDERATE" {
		id := text(d.following["followerId"]) + "\x00" + text(d.following["followingId"])
		if p.follows[id] {
			return "FOLLOW_ALREADY_EXISTS"
		}
		p.follows[id] = true
		return ""
	}
	id := text(d.post["id"])
	if p.posts[id] {
		return "FEDERATED_POST_ALREADY_EXISTS"
	}
	p.posts[id] = true
	return ""
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func plain(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
