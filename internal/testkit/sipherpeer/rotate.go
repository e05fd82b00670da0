package sipherpeer

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

// rotation is a change of a registered server's keys that is under way.
type rotation struct {
	to       card
	texts    [4]string // signing old, signing new, encryption old, encryption new
	attempts int
}

func (p *Peer) beginRotation(w http.ResponseWriter, body string) {
	var in struct {
		URL        string `json:"url"`
		Signing    string `json:"newSigningPublicKey"`
		Encryption string `json:"newEncryptionPublicKey"`
	}
	err := json.Unmarshal([]byte(body), &in)
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.registered[in.URL]
	switch {
	case err != nil, in.Signing == known.PublicKey, in.Encryption == known.EncryptionKey:
		refuse(w, http.StatusBadRequest, "INVALID_ROTATION")
		return
	case !ok:
		refuse(w, http.StatusNotFound, "UNKNOWN_SERVER")
		return
	case p.rotations[in.URL] != nil:
		refuse(w, http.StatusConflict, "ROTATION_PENDING")
		return
	}
	r := &rotation{to: card{in.URL, in.Signing, in.Encryption}, attempts: 3}
	for i := range r.texts {
		r.texts[i] = newUUID()
	}
	old, errOld := seal(known.EncryptionKey, r.texts[2])
	next, errNew := seal(in.Encryption, r.texts[3])
	if errOld != nil || errNew != nil {
		refuse(w, http.StatusBadRequest, "INVALID_KEY")
		return
	}
	p.rotations[in.URL] = r
	answer(w, http.StatusOK, map[string]any{
		"signingOldChallenge": r.texts[0], "signingNewChallenge": r.texts[1], "encryptionOldChallenge": old, "encryptionNewChallenge": next,
	})
}

func (p *Peer) confirmRotation(w http.ResponseWriter, body string) {
	var in struct {
		URL      string `json:"serverUrl"`
		Envelope sealed `json:"envelope"`
	}
	var proofs struct {
		SigningOld    string `json:"signingOldSignature"`
		SigningNew    string `json:"signingNewSignature"`
		EncryptionOld string `json:"encryptionOldPlaintext"`
		EncryptionNew string `json:"encryptionNewPlaintext"`
	}
	err := json.Unmarshal([]byte(body), &in)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rotations[in.URL]
	if err != nil || r == nil {
		refuse(w, http.StatusBadRequest, "NO_ROTATION")
		return
	}
	text, err := p.keys.open(in.Envelope)
	if err == nil {
		err = json.Unmarshal([]byte(text), &proofs)
	}
	if err != nil || !verify(p.registered[in.URL].PublicKey, r.texts[0], proofs.SigningOld) || !verify(r.to.PublicKey, r.texts[1], proofs.SigningNew) ||
		proofs.EncryptionOld != r.texts[2] || proofs.EncryptionNew != r.texts[3] {
		if r.attempts--; r.attempts == 0 {
			delete(p.rotations, in.URL)
		}
		refuse(w, http.StatusBadRequest, "WRONG_PROOF")
		return
	}
	p.registered[in.URL] = r.to
	delete(p.rotations, in.URL)
	answer(w, http.StatusOK, map[string]string{"message": "Key rotation confirmed successfully."})
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
