// Command guide is what docs/guide.md shows, in Go.
//
// usage: guide INBOX...
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"

	"fedpost/client"
)

const (
	actor = "https://social.example/users/frida"
	keyID = actor + "#main-key"
)

func connect() (*client.Client, error) {
	address := cmp.Or(os.Getenv("FEDPOST_URL"), "http://127.0.0.1:8080")
	return client.New(address, client.Token(os.Getenv("FEDPOST_API_TOKEN")))
}

func key(ctx context.Context, fedpost *client.Client) (string, error) {
	k, err := fedpost.GenerateKey(ctx, keyID, "rsa")
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusConflict {
		k, err = fedpost.Key(ctx, keyID)
	}
	return k.PublicKeyPEM, err
}

func send(ctx context.Context, fedpost *client.Client, note string, inboxes []string) (id string, err error) {
	activity, err := json.Marshal(map[string]any{
		"@context": "https://www.w3.org/ns/activitystreams",
		"id":       note + "/activity",
		"type":     "Create",
		"actor":    actor,
		"object":   map[string]any{"id": note, "type": "Note", "content": "<p>Hello</p>"},
	})
	if err != nil {
		return "", err
	}
	accepted, err := fedpost.Send(ctx, client.Submission{
		Activity:         activity,
		KeyID:            keyID,
		Recipients:       client.To(inboxes...),
		DeduplicationKey: "create " + note,
		Notify:           true,
	})
	return accepted.ID, err
}

func counts(ctx context.Context, fedpost *client.Client, id string) (map[string]int, error) {
	status, err := fedpost.Progress(ctx, id)
	return status.Counts, err
}

func follow(ctx context.Context, fedpost *client.Client, handle func(client.Event) error) error {
	cursor, err := os.ReadFile("cursor")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for e, err := range fedpost.Events(ctx, string(cursor)) {
		if err != nil {
			return err
		}
		if err := handle(e.Event); err != nil {
			return err
		}
		if err := os.WriteFile("cursor", []byte(e.Cursor), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	log.Fatal(run(context.Background(), os.Args[1:])) // it follows events for ever
}

func run(ctx context.Context, followers []string) error {
	fedpost, err := connect()
	if err != nil {
		return err
	}
	pem, err := key(ctx, fedpost)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(pem, "\n")
	fmt.Println("publish", first)
	id, err := send(ctx, fedpost, "https://social.example/notes/1", followers)
	if err != nil {
		return err
	}
	fmt.Println("sent", id)

	return follow(ctx, fedpost, func(e client.Event) error {
		if e.Type == client.RecipientGone && (e.Status == http.StatusGone || e.Count >= 10) {
			if i := slices.Index(followers, e.Inbox); i >= 0 {
				followers = slices.Delete(followers, i, i+1)
				fmt.Println("gone", e.Inbox)
			}
		}
		if e.Type == client.ActivityDone {
			n, err := counts(ctx, fedpost, e.ActivityID)
			if err != nil {
				return err
			}
			fmt.Println("done", n["delivered"], n["failed"])
		}
		return nil
	})
}
