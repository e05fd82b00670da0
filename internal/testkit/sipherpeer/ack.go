package sipherpeer

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// acknowledge answers a delivery that was stored.
func (p *Peer) acknowledge(w http.ResponseWriter, b Behavior, d delivery) {
	status := cmp.Or(b.Status, http.StatusOK)
	switch {
	case b.Body != "":
		plain(w, status, b.Body)
		return
	case b.Form == Legacy:
		answer(w, status, map[string]string{"status": "acknowledged"})
		return
	case b.Form == Null:
		plain(w, status, "null")
		return
	case b.Form == Text:
		plain(w, status, "OK")
		return
	case b.Form == Empty:
		w.WriteHeader(status)
		return
	case b.Form == NoContent:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ack, err := p.ack(b, d)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "CANNOT_ACKNOWLEDGE")
		return
	}
	if b.Form == Inline {
		answer(w, status, ack)
		return
	}
	answer(w, status, map[string]any{"method": "PROXY_RESPONSE", "payload": ack})
}

func (p *Peer) ack(b Behavior, d delivery) (map[string]any, error) {
	p.mu.Lock()
	k := p.keys
	p.mu.Unlock()
	inner, err := json.Marshal(p.content(b, d))
	if err != nil {
		return nil, err
	}
	plaintext := string(inner)
	if b.Garbage {
		plaintext = "garbage"
	}
	recipient := d.from.EncryptionKey
	if b.WrongRecipient {
		recipient = k.encryptionKey()
	}
	data, err := seal(recipient, plaintext)
	if err != nil {
		return nil, err
	}
	ack := map[string]any{"method": "PROXY_RESPONSE", "status": "acknowledged", "data": data}
	signed := plaintext
	if b.BadSignature {
		signed += " "
	}
	if !b.NoSignature {
		ack["signature"] = k.sign(signed)
	}
	return ack, nil
}

// content is the plaintext of an acknowledgement.
func (p *Peer) content(b Behavior, d delivery) any {
	if d.method != "FEDERATE" {
		return map[string]any{"method": d.method, "federationUrl": p.URL, "post": d.post}
	}
	following := map[string]any{
		"id":                 "row-of-the-receiver",
		"createdAt":          json.RawMessage(cmp.Or(b.CreatedAt, `"2026-05-06T14:17:41.000Z"`)),
		"followerId":         cmp.Or(b.FollowerID, text(d.following["followerId"])),
		"followingId":        cmp.Or(b.FollowingID, text(d.following["followingId"])),
		"followerServerUrl":  d.from.URL,
		"followingServerUrl": nil,
		"acknowledged":       true,
	}
	if a := cmp.Or(b.Accepted, "true"); a != "absent" {
		following["accepted"] = json.RawMessage(a)
	}
	return map[string]any{"following": following, "federationUrl": d.from.URL, "method": "FEDERATE"}
}
