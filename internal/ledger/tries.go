package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity/outcome"
)

// Try is one attempt to deliver to a recipient whose first attempt failed. The names in its tags
// are stored.
type Try struct {
	At     time.Time     `json:"-"`
	Status int           `json:"c,omitempty"` // of the answer; 0: none came
	Error  string        `json:"e,omitempty"`
	Form   string        `json:"f,omitempty"` // of the signature, if the protocol has several
	Took   time.Duration `json:"-"`
}

// Tries are the last tries of a recipient, oldest first, as JSON; empty for none. It is a
// string so that recipients can be compared.
type Tries string

// Bounds of Tries: a record with them still takes one write unit.
const (
	mostTries  = 5
	longestTry = 100 // bytes of an error
)

type tryJSON struct {
	At int64 `json:"t"` // ms since 1970
	Try
	Took int64 `json:"k,omitempty"` // ms
}

func (t Tries) decode() (js []tryJSON, err error) {
	if t == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(t), &js); err != nil {
		return nil, fmt.Errorf("decode tries: %w", err)
	}
	return js, nil
}

func (t Tries) List() ([]Try, error) {
	js, err := t.decode()
	if err != nil || len(js) == 0 {
		return nil, err
	}
	all := make([]Try, len(js))
	for i, j := range js {
		all[i] = j.Try
		all[i].At, all[i].Took = time.UnixMilli(j.At).UTC(), time.Duration(j.Took)*time.Millisecond
	}
	return all, nil
}

// Add returns t with a further try, without those before the last five.
func (t Tries) Add(n Try) (Tries, error) {
	js, err := t.decode()
	if err != nil {
		return "", err
	}
	n.Error = outcome.Clean(n.Error, longestTry)
	js = append(js, tryJSON{n.At.UnixMilli(), n, n.Took.Milliseconds()})
	b, err := json.Marshal(js[max(0, len(js)-mostTries):])
	if err != nil {
		return "", fmt.Errorf("encode tries: %w", err)
	}
	return Tries(b), nil
}

// Several reports whether t has more than one try.
func (t Tries) Several() bool {
	if strings.Count(string(t), `{"t":`) < 2 {
		return false // the case of almost all recipients, without decoding
	}
	all, err := t.List()
	return err == nil && len(all) > 1
}
