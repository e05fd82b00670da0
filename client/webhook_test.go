package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"fedpost/client"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// signedWebhook is a request as fedpost sends it, signed at a time.
func signedWebhook(t *testing.T, body string, at time.Time) *http.Request {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign("evt_1", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hooks/fedpost", strings.NewReader(body))
	r.Header.Set("webhook-id", "evt_1")
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", "v1,AAAA "+signature) // of a former secret, too
	return r
}

func TestAWebhookIsReadIfItsSignatureHolds(t *testing.T) {
	one := `{"id":"evt_1","type":"recipient.gone","time":"2026-11-22T08:00:00Z","inbox":"https://a.example/inbox"}`
	for body, want := range map[string]int{one: 1, `{"events":[` + one + `,` + one + `]}`: 2, `{"events":[]}`: 0} {
		all, err := client.ReadWebhook(signedWebhook(t, body, time.Now()), webhookSecret)
		if err != nil || len(all) != want {
			t.Errorf("%s: %+v, %v", body, all, err)
		}
		for _, e := range all {
			if e.Type != client.RecipientGone || e.Inbox != "https://a.example/inbox" {
				t.Errorf("the event is %+v, want recipient.gone of https://a.example/inbox", e)
			}
		}
	}
}

func TestAWebhookOfSomebodyElseIsNotRead(t *testing.T) {
	const body = `{"id":"evt_1","type":"recipient.gone"}`
	changed := signedWebhook(t, body, time.Now())
	changed.Body = http.NoBody
	unsigned := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	for name, r := range map[string]*http.Request{
		"changed": changed, "unsigned": unsigned,
		"old":   signedWebhook(t, body, time.Now().Add(-6*time.Minute)),
		"large": signedWebhook(t, `{"reason":"`+strings.Repeat("x", 3<<20)+`"}`, time.Now()),
		"text":  signedWebhook(t, "hello", time.Now()),
	} {
		if all, err := client.ReadWebhook(r, webhookSecret); !errors.Is(err, client.ErrWebhook) || all != nil {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	if _, err := client.ReadWebhook(signedWebhook(t, body, time.Now()), "whsec_!"); err == nil || errors.Is(err, client.ErrWebhook) {
		t.Errorf("a secret that is none: %v", err)
	}
}

// TestAWebhookIsRefusedWhereNoSecretIsSet: anybody can sign with an empty key.
func TestAWebhookIsRefusedWhereNoSecretIsSet(t *testing.T) {
	const body = `{"id":"evt_1","type":"recipient.gone"}`
	empty, err := standardwebhooks.NewWebhookRaw(nil)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := empty.Sign("evt_1", time.Now(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"", "whsec_", " ", "\n", "whsec_\r\n", " whsec_ "} {
		r := signedWebhook(t, body, time.Now())
		r.Header.Set("webhook-signature", signature)
		if all, err := client.ReadWebhook(r, secret); err == nil || all != nil {
			t.Errorf("secret %q: %v, %v", secret, all, err)
		}
	}
}
