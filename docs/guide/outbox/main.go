// Command outbox is what docs/guide.md shows of the outbox on PostgreSQL, in Go.
//
// usage: outbox DATABASE NOTE INBOX...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

const (
	actor = "https://social.example/users/frida"
	keyID = actor + "#main-key"
)

func publish(ctx context.Context, db *pgx.Conn, note, content string, inboxes []string) error {
	request, err := json.Marshal(map[string]any{
		"activity": map[string]any{
			"@context": "https://www.w3.org/ns/activitystreams",
			"id":       note + "/activity",
			"type":     "Create",
			"actor":    actor,
			"object":   map[string]any{"id": note, "type": "Note", "content": content},
		},
		"keyId":      keyID,
		"recipients": inboxes,
	})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO posts (id, content) VALUES ($1, $2)", note, content); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO fedpost.outbox (request) VALUES ($1)", string(request))
		return err
	})
}

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Args[1])
	if err == nil {
		err = publish(ctx, db, os.Args[2], "<p>Hello</p>", os.Args[3:])
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("committed", os.Args[2])
	select {} // until it is killed
}
