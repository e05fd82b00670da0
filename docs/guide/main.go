// Command guide is what docs/guide.md shows, in Go and with the standard library alone.
//
// usage: guide INBOX...
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	actor = "https://social.example/users/frida"
	keyID = actor + "#main-key"
)

// A problem is a refusal (RFC 9457).
type problem struct {
	Status int
	Title  string
	Detail string
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// ask makes a request, with in as its body if that is not nil, and reads the answer into out.
func ask(method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequest(method, cmp.Or(os.Getenv("FEDPOST_URL"), "http://127.0.0.1:8080")+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("FEDPOST_API_TOKEN"))
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 300 {
		return json.NewDecoder(res.Body).Decode(out)
	}
	p := &problem{Status: res.StatusCode, Title: res.Status}
	if err := json.NewDecoder(res.Body).Decode(p); err != nil {
		return fmt.Errorf("%s: %w", res.Status, err)
	}
	return p
}

var client = &http.Client{Timeout: 30 * time.Second} // longer than the long poll

func key() (string, error) {
	var k struct{ PublicKeyPem string }
	err := ask("POST", "/v1/keys", map[string]any{"id": keyID, "type": "rsa"}, &k)
	if p := (*problem)(nil); errors.As(err, &p) && p.Status == http.StatusConflict {
		err = ask("GET", "/v1/keys/"+url.PathEscape(keyID), nil, &k)
	}
	return k.PublicKeyPem, err
}

func send(note string, inboxes []string) (id string, err error) {
	var accepted struct{ ID string }
	err = ask("POST", "/v1/activities", map[string]any{
		"activity": map[string]any{
			"@context": "https://www.w3.org/ns/activitystreams",
			"id":       note + "/activity",
			"type":     "Create",
			"actor":    actor,
			"object":   map[string]any{"id": note, "type": "Note", "content": "<p>Hello</p>"},
		},
		"keyId":            keyID,
		"recipients":       inboxes,
		"deduplicationKey": "create " + note,
		"notify":           true,
	}, &accepted)
	return accepted.ID, err
}

func counts(id string) (map[string]int, error) {
	var activity struct{ Counts map[string]int }
	err := ask("GET", "/v1/activities/"+id, nil, &activity)
	return activity.Counts, err
}

type event struct {
	Type, ActivityID, Inbox string
	Status, Count           int
}

func follow(told func(event) error) error {
	after, err := os.ReadFile("cursor")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for {
		var page struct {
			Events     []event
			Next       string
			RetryAfter time.Duration // in seconds
		}
		if err := ask("GET", "/v1/events?wait=20&after="+url.QueryEscape(string(after)), nil, &page); err != nil {
			return err
		}
		for _, e := range page.Events {
			if err := told(e); err != nil {
				return err
			}
		}
		after = []byte(page.Next)
		if err := os.WriteFile("cursor", after, 0o600); err != nil {
			return err
		}
		time.Sleep(page.RetryAfter * time.Second) // too many wait already
	}
}

func main() {
	log.Fatal(run(os.Args[1:])) // it follows events for ever
}

func run(followers []string) error {
	pem, err := key()
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(pem, "\n")
	fmt.Println("publish", first)
	id, err := send("https://social.example/notes/1", followers)
	if err != nil {
		return err
	}
	fmt.Println("sent", id)

	return follow(func(e event) error {
		if e.Type == "recipient.gone" && (e.Status == http.StatusGone || e.Count >= 10) {
			if i := slices.Index(followers, e.Inbox); i >= 0 {
				followers = slices.Delete(followers, i, i+1)
				fmt.Println("gone", e.Inbox)
			}
		}
		if e.Type == "activity.done" {
			n, err := counts(e.ActivityID)
			if err != nil {
				return err
			}
			fmt.Println("done", n["delivered"], n["failed"])
		}
		return nil
	})
}
