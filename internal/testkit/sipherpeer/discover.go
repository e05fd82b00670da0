package sipherpeer

import (
	"encoding/json"
	"io"
	"net/http"
)

type card struct {
	URL           string `json:"url"`
	PublicKey     string `json:"publicKey"`
	EncryptionKey string `json:"encryptionPublicKey"`
}

func (p *Peer) serveDiscover(w http.ResponseWriter, r *http.Request, body string) {
	p.mu.Lock()
	d, own := p.discovery, card{p.URL, p.keys.publicKey(), p.keys.encryptionKey()}
	p.mu.Unlock()
	switch {
	case d.Hang:
		<-r.Context().Done()
	case r.Method == http.MethodPost:
		p.register(w, d, own, body)
	case r.Method != http.MethodGet:
		refuse(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	case d.Status != 0:
		refuse(w, d.Status, "DISCOVERY_REFUSED")
	case d.Body != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, d.Body)
	default:
		answer(w, http.StatusOK, struct {
			card
			Peers []string `json:"peers"`
		}{own, []string{}})
	}
}

func (p *Peer) register(w http.ResponseWriter, d Discovery, own card, body string) {
	var claim struct {
		Method string `json:"method"`
		card
	}
	if err := json.Unmarshal([]byte(body), &claim); err != nil || claim.Method != "REGISTER" ||
		claim.URL == "" || claim.PublicKey == "" || claim.EncryptionKey == "" || d.RefuseRegistration {
		refuse(w, http.StatusBadRequest, "INVALID_REGISTRATION")
		return
	}
	if d.CallBack && !p.confirms(claim.card) {
		refuse(w, http.StatusBadGateway, "CALLBACK_FAILED")
		return
	}
	p.Know(claim.URL, claim.PublicKey, claim.EncryptionKey)
	answer(w, http.StatusOK, map[string]any{"message": "Server registered successfully", "echo": own})
}

func (p *Peer) confirms(claim card) bool {
	res, err := p.client.Get(claim.URL + "/discover")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var got card
	err = json.NewDecoder(res.Body).Decode(&got)
	return err == nil && res.StatusCode == http.StatusOK &&
		got.PublicKey == claim.PublicKey && got.EncryptionKey == claim.EncryptionKey
}

// RegisterWith registers the peer with the server at url, as a peer that has
// discovered it would, and returns the status and the body of the answer.
func (p *Peer) RegisterWith(url string) (int, string, error) {
	body, err := json.Marshal(map[string]string{
		"method": "REGISTER", "url": p.URL, "publicKey": p.PublicKey(), "encryptionPublicKey": p.EncryptionKey(),
	})
	if err != nil {
		return 0, "", err
	}
	return p.post(url+"/discover", nil, string(body))
}
