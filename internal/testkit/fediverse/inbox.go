package fediverse

import (
	"crypto"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"fedpost/internal/protocol/httpsign"
)

// Post is one POST as an Inbox saw it.
type Post struct {
	URL        string // host and path
	Proto      string // version of HTTP
	Body       string // byte for byte
	ActivityID string // the body's "id"
	Header     http.Header
	Form       httpsign.Form // of its signature
	KeyID      string
	// Refused says why the signature was not accepted; nil if it was.
	Refused error
	// Status that was answered; 0 if none was.
	Status int
	// At is when it came.
	At time.Time
}

// Inbox is an http.Handler that receives activities as a strict server does: it
// verifies the signature and the digest, answers 401 if they do not hold, and
// otherwise follows its script. It accepts any path, so one Inbox can be a
// whole server.
type Inbox struct {
	mu       sync.Mutex
	keys     map[string]crypto.PublicKey
	forms    []httpsign.Form
	script   []Step
	fallback Step
	posts    []Post
	now      func() time.Time
}

// NewInbox returns an inbox that knows the public keys of some key ids and
// answers 202 to everything that they sign.
func NewInbox(keys map[string]crypto.PublicKey) *Inbox {
	return &Inbox{keys: keys, forms: []httpsign.Form{httpsign.Cavage, httpsign.RFC9421}, fallback: Status(http.StatusAccepted), now: time.Now}
}

// Takes limits the signature forms that the inbox verifies; others get 401.
func (in *Inbox) Takes(forms ...httpsign.Form) *Inbox {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.forms = forms
	return in
}

// Clock sets the inbox's clock, against which dates of signatures are checked.
func (in *Inbox) Clock(now func() time.Time) *Inbox {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.now = now
	return in
}

// Then appends steps to the script: one is used up per POST with a good
// signature.
func (in *Inbox) Then(steps ...Step) *Inbox {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.script = append(in.script, steps...)
	return in
}

// Always sets what is done when the script is used up.
func (in *Inbox) Always(s Step) *Inbox {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.fallback = s
	return in
}

// Posts returns all POSTs so far, in order of arrival.
func (in *Inbox) Posts() []Post {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.posts)
}

// Accepted returns the POSTs that were answered 2xx, in order of arrival.
func (in *Inbox) Accepted() []Post {
	return slices.DeleteFunc(in.Posts(), func(p Post) bool { return p.Status < 200 || p.Status > 299 })
}

// Count returns how many POSTs carried the activity of this id, refused
// signatures included.
func (in *Inbox) Count(activityID string) int {
	n := 0
	for _, p := range in.Posts() {
		if p.ActivityID == activityID {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (in *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
		return
	}
	in.mu.Lock()
	p := Post{URL: r.Host + r.URL.RequestURI(), Proto: r.Proto, Body: string(body), Header: r.Header.Clone(), At: in.now()}
	step := Status(http.StatusUnauthorized)
	if p.Refused = in.verify(r, body, &p); p.Refused != nil {
		step.Body = fmt.Sprintf("{\"error\":%q}", p.Refused.Error())
	} else if r.Method != http.MethodPost {
		step = Status(http.StatusMethodNotAllowed)
	} else if step = in.fallback; len(in.script) > 0 {
		step, in.script = in.script[0], in.script[1:]
	}
	var doc struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &doc) == nil {
		p.ActivityID = doc.ID
	}
	p.Status = step.Code
	in.posts = append(in.posts, p)
	in.mu.Unlock()
	step.serve(w, r)
}
