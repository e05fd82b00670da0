package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fedpost/client"
)

// received is a request to a webhook.
type received struct {
	header http.Header
	body   []byte
}

// endpoint is a webhook's receiver.
func endpoint(t terminal) (url string, got <-chan received) {
	ch := make(chan received, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		ch <- received{r.Header, b}
	}))
	t.Cleanup(s.Close)
	return s.URL, ch
}

// verify checks a request with the library that others wrote, under each of the secrets.
func (t terminal) verify(r received, secrets ...string) {
	t.Helper()
	for _, s := range secrets {
		wh, err := standardwebhooks.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := wh.Verify(r.body, r.header); err != nil {
			t.Errorf("%v: %s", err, r.body)
		}
	}
}

func TestWebhooksGetSignedEvents(tt *testing.T) {
	tt.Parallel()
	t := onServer(tt)
	url, single := endpoint(t)
	url2, batch := endpoint(t)
	t.run([]string{"webhooks", "list"}, "none")
	out := t.run([]string{"webhooks", "put", "one", url, "--type", "recipient.gone"}, "one enabled", "whsec_")
	_, secret, _ := strings.Cut(strings.TrimSpace(out), ": ")
	own := "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	if out := t.run([]string{"webhooks", "put", "all", url2, "--batch", "--secret", own}); strings.Contains(out, "whsec_") {
		t.Errorf("a secret is shown to whom has given it: %s", out)
	}
	if list := t.run([]string{"webhooks", "list"}, "recipient.gone", "all (batches)", "enabled"); strings.Contains(list, "whsec_") {
		t.Errorf("secrets are listed: %s", list)
	}

	t.run([]string{"webhooks", "test", "one"}, "delivered", "200")
	r := <-single
	t.verify(r, secret)
	if !strings.Contains(string(r.body), `"type":"webhook.test"`) {
		t.Errorf("the test event is %s, want type webhook.test", r.body)
	}

	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	defer gone.Close()
	t.run([]string{"keys", "generate", keyID, "--type", "ed25519"})
	t.run([]string{"send", t.file("note.json", note), "--key", keyID, "--to", gone.URL + "/ada", "--to", gone.URL + "/bob"})
	for range 2 {
		r := <-single
		t.verify(r, secret)
		var e client.Event
		if err := json.Unmarshal(r.body, &e); err != nil || e.Type != "recipient.gone" || e.ID != r.header.Get("webhook-id") || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v: %v", r.body, r.header, err)
		}
	}
	for n := 0; n < 2; { // the two may come in one request or in two
		r := <-batch
		t.verify(r, own)
		var list struct{ Events []client.Event }
		if err := json.Unmarshal(r.body, &list); err != nil || len(list.Events) == 0 {
			t.Errorf("%s: %v", r.body, err)
		}
		n += len(list.Events)
	}

	out = t.run([]string{"webhooks", "put", "one", url, "--rotate"}, "whsec_")
	_, next, _ := strings.Cut(strings.TrimSpace(out), ": ")
	t.run([]string{"webhooks", "test", "one"})
	t.verify(<-single, secret, next)

	t.run([]string{"stats"}, "webhooks    ", "2 enabled")
	t.run([]string{"webhooks", "delete", "one"}, "one deleted")
	t.fails("no webhook of this id", "webhooks", "delete", "one")
	t.fails("no webhook of this id", "webhooks", "test", "one")
	t.fails("letters, digits", "webhooks", "put", "no id", url)
	t.fails("is not a secret", "webhooks", "put", "bad", url, "--secret", "whsec_short")
	t.fails("must be one of", "webhooks", "put", "bad", url, "--type", "recipient.sad")
	t.run([]string{"events", "--type", "recipient.failed,recipient.dead"}, "none")
}
