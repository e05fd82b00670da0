package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"fedpost/client"
)

// fedpost stands in for a fedpost: it gives each route the answer that docs/openapi.yaml shows.
func fedpost() *httptest.Server {
	asked := 0
	routes := http.NewServeMux()
	for route, answer := range map[string]string{
		"POST /v1/keys":                   `{"id":"https://social.example/users/frida#main-key","type":"rsa","publicKeyPem":"-----BEGIN PUBLIC KEY-----\n…"}`,
		"POST /v1/activities":             `{"id":"01KAJ5M3ZX8Q5Y0V3T9B6C2D4E","status":"queued","recipients":2}`,
		"POST /v1/activities/batch":       `{"status":"queued","activities":[{"id":"01KAJ5M3ZX8Q5Y0V3T9B6C2D4E","status":"queued","recipients":1},{"id":"01KAJ5M3ZXW4N2R7H1J8K5M6P0","status":"queued","recipients":1}]}`,
		"GET /v1/activities/{id}":         `{"id":"01KAJ5M3ZX8Q5Y0V3T9B6C2D4E","status":"done","counts":{"delivered":1,"failed":1},"recipients":[{"inbox":"https://a.example/inbox","state":"failed","attempts":1,"lastError":"410 Gone"}]}`,
		"POST /v1/activities/{id}/cancel": `{"id":"01KAJ5M3ZX8Q5Y0V3T9B6C2D4E","status":"cancelled","counts":{"cancelled":2}}`,
		"GET /v1/dead-letters":            `{"deadLetters":[{"id":"1","inbox":"https://a.example/inbox","reason":"no connection"}]}`,
		"POST /v1/dead-letters/retry":     `{"retried":1,"more":false}`,
		"POST /v1/servers/{host}/pause":   `{"server":"a.example","protocol":"activitypub","phase":"paused"}`,
		"GET /v1/events":                  `{"events":[{"id":"evt_1","type":"recipient.gone","time":"2026-11-22T08:00:00Z","inbox":"https://a.example/inbox","status":410}],"next":"Ag","more":false}`,
	} {
		routes.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer) })
	}
	routes.HandleFunc("PUT /v1/keys/{id}", func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"title":"Invalid request","detail":"The key is no PEM.","errors":[{"pointer":"#/privateKeyPem","detail":"is no PEM"}]}`)
	})
	return httptest.NewServer(routes)
}

var (
	server   = fedpost()
	ctx      = context.Background()
	activity = json.RawMessage(`{"@context":"https://www.w3.org/ns/activitystreams","type":"Create","actor":"https://social.example/users/frida"}`)
)

const keyID = "https://social.example/users/frida#main-key"

// In a program the address is that of `fedpost up` or of an API Gateway.
var c, _ = client.New(server.URL, client.Token(os.Getenv("FEDPOST_SEND_TOKEN")))

// Submit an activity. Whatever happens to the call, it is delivered once.
func ExampleClient_Send() {
	accepted, err := c.Send(ctx, client.Submission{
		Activity: activity, KeyID: keyID,
		Recipients: client.To("https://a.example/inbox", "https://b.example/inbox"),
		Notify:     true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(accepted.Status, accepted.Recipients)
	// Output: queued 2
}

// Several recipients of a server share one request, in their own order, after an hour.
func ExampleClient_Send_options() {
	_, err := c.Send(ctx, client.Submission{
		Activity: activity, KeyID: keyID,
		Recipients: []client.Recipient{
			{Inbox: "https://a.example/users/ada/inbox", SharedInbox: "https://a.example/inbox"},
			{Inbox: "https://a.example/users/bob/inbox", SharedInbox: "https://a.example/inbox"},
		},
		DeduplicationKey: "note-1-version-7",
		OrderingKey:      "https://social.example/notes/1",
		Delay:            client.Duration(time.Hour),
		ExpiresIn:        client.Duration(7 * 24 * time.Hour),
	})
	fmt.Println(err)
	// Output: <nil>
}

// Hand over some activities, all of them or none.
func ExampleClient_SendMany() {
	to := client.To("https://a.example/inbox")
	accepted, err := c.SendMany(ctx, client.Batch{Activities: []client.Submission{
		{Activity: activity, KeyID: keyID, Recipients: to}, {Activity: activity, KeyID: keyID, Recipients: to},
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(accepted.Status, len(accepted.Activities))
	// Output: queued 2
}

// Make a signing key, and publish its public half in the actor's document.
func ExampleClient_GenerateKey() {
	key, err := c.GenerateKey(ctx, keyID, "rsa")
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Split(key.PublicKeyPEM, "\n")[0])
	// Output: -----BEGIN PUBLIC KEY-----
}

// Wait until an activity is done, and list the inboxes that did not get it.
func ExampleClient_WaitUntilDone() {
	status, err := c.WaitUntilDone(ctx, "01KAJ5M3ZX8Q5Y0V3T9B6C2D4E")
	if err != nil {
		panic(err)
	}
	fmt.Println(status.Missed(), "of", status.Missed()+status.Counts[client.StateDelivered])
	for r, err := range c.Recipients(ctx, status.ID, client.RecipientQuery{State: client.StateFailed}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Inbox, r.LastError)
	}
	// Output:
	// 1 of 2
	// https://a.example/inbox 410 Gone
}

// Stop what is not delivered yet.
func ExampleClient_Cancel() {
	cancelled, err := c.Cancel(ctx, "01KAJ5M3ZX8Q5Y0V3T9B6C2D4E")
	fmt.Println(cancelled.Counts, err)
	// Output: map[cancelled:2] <nil>
}

// Remove followers whose inbox is gone. The cursor outlives the program, so no event is missed.
func ExampleClient_Events() {
	cursor := "" // as it was stored
	for e, err := range c.Events(ctx, cursor, client.RecipientGone, client.ActivityDone) {
		if err != nil {
			fmt.Println(err) // ctx has ended, or fedpost refuses
			break
		}
		if e.Type == client.RecipientGone && (e.Status == http.StatusGone || e.Count >= 10) {
			fmt.Println("remove", e.Inbox)
		}
		cursor = e.Cursor // store it, in one transaction with the removal
		break
	}
	fmt.Println(cursor)
	// Output:
	// remove https://a.example/inbox
	// Ag
}

// Distinguish refusals.
func ExampleProblem() {
	_, err := c.PutKey(ctx, keyID, "no key")
	var refused *client.Problem
	switch {
	case errors.As(err, &refused):
		fmt.Println(refused.Status, refused.Detail, refused.Errors[0].Pointer)
	case errors.Is(err, client.ErrNoAnswer):
		fmt.Println("nobody answers")
	}
	// Output: 400 The key is no PEM. #/privateKeyPem
}

// List dead letters, and retry those of a server that is back.
func ExampleClient_RetryDeadLetters() {
	selection := client.Selection{Host: "a.example"}
	for letter, err := range c.DeadLetters(ctx, selection) {
		if err != nil {
			panic(err)
		}
		fmt.Println(letter.Inbox, letter.Reason)
	}
	retried, err := c.RetryDeadLetters(ctx, selection)
	fmt.Println(retried.Retried, err)
	// Output:
	// https://a.example/inbox no connection
	// 1 <nil>
}

// Hold deliveries to a server back.
func ExampleClient_PauseServer() {
	s, err := c.PauseServer(ctx, "a.example", client.Pause{For: client.Duration(2 * time.Hour), Reason: "its admin has asked"})
	fmt.Println(s.Phase, err)
	// Output: paused <nil>
}

// Receive events as webhooks.
func ExampleReadWebhook() {
	http.HandleFunc("POST /hooks/fedpost", func(w http.ResponseWriter, r *http.Request) {
		all, err := client.ReadWebhook(r, os.Getenv("FEDPOST_WEBHOOK_SECRET"))
		switch {
		case errors.Is(err, client.ErrWebhook):
			w.WriteHeader(http.StatusUnauthorized)
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		}
		for _, e := range all {
			fmt.Println(e.Type, e.Inbox)
		}
	})
}
