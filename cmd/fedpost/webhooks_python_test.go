package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// verifier checks requests as JSON, one a line, with the Python library of Standard
// Webhooks. A request whose body was changed must fail.
const verifier = `
import json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
for line in sys.stdin:
    r = json.loads(line)
    for secret in r["secrets"]:
        Webhook(secret).verify(r["body"], r["headers"])
        try:
            Webhook(secret).verify(r["body"] + " ", r["headers"])
            sys.exit("a changed body was verified")
        except WebhookVerificationError:
            pass
print("verified")
`

// TestWebhooksAreVerifiedByPython runs where FEDPOST_WEBHOOKS_PYTHON names a Python that
// has the package standardwebhooks, as in CI.
func TestWebhooksAreVerifiedByPython(tt *testing.T) {
	tt.Parallel()
	python := os.Getenv("FEDPOST_WEBHOOKS_PYTHON")
	if python == "" {
		tt.Skip("FEDPOST_WEBHOOKS_PYTHON is not set")
	}
	t := onServer(tt)
	url, got := endpoint(t)
	_, first, _ := strings.Cut(strings.TrimSpace(t.run([]string{"webhooks", "put", "app", url})), ": ")
	t.run([]string{"webhooks", "test", "app"})
	requests := []received{<-got}
	_, second, _ := strings.Cut(strings.TrimSpace(t.run([]string{"webhooks", "put", "app", url, "--rotate", "--batch"})), ": ")
	t.run([]string{"webhooks", "test", "app"})
	requests = append(requests, <-got)
	var in strings.Builder
	for i, r := range requests {
		headers := map[string]string{}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			headers[name] = r.header.Get(name)
		}
		line := map[string]any{"secrets": []string{first, second}[:i+1], "headers": headers, "body": string(r.body)}
		if err := json.NewEncoder(&in).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", verifier)
	cmd.Stdin = strings.NewReader(in.String())
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "verified\n" {
		t.Errorf("%s: %v", out, err)
	}
}
