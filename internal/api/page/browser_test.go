package page_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"fedpost/client"
)

// TestThePageInABrowser goes through every page in Chromium (browser/page.mjs). It needs
// the folder with the script's packages in FEDPOST_BROWSER and Chromium in
// FEDPOST_CHROMIUM: `make page-shots` installs both. Screenshots go to FEDPOST_SHOTS.
func TestThePageInABrowser(t *testing.T) {
	packages := os.Getenv("FEDPOST_BROWSER")
	if packages == "" {
		t.Skip("FEDPOST_BROWSER names no folder with playwright-core and axe-core: make page-shots")
	}
	s := serve(t, busy(t), true)
	streamed := someEvents(1, "bGFzdA")
	streamed.Events[0].Inbox, streamed.Events[0].Host = "https://streamed.example/inbox", "streamed.example"
	s.api.set("/v1/events?after=bmV4dA&limit=100&type=recipient.gone", streamed)
	// Node looks for packages beside the script.
	script := filepath.Join(packages, "page.mjs")
	text, err := os.ReadFile("browser/page.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.api.set("/v1/servers/%2A.mastodon.down.example", client.Server{Name: "*.mastodon.down.example", Phase: "blocked"})
	s.api.set("POST /v1/dead-letters/retry", client.Retried{Retried: 7})
	s.api.set("POST /v1/activities/"+anActivity+"/retry", client.RetriedActivity{Retried: 11})
	s.api.set("DELETE /v1/dead-letters", client.Dropped{Dropped: 3})
	s.api.set("POST /v1/keys", client.Key{ID: aKey})
	cmd := exec.CommandContext(t.Context(), "node", script, s.url, token, os.Getenv("FEDPOST_SHOTS"))
	cmd.Env = append(os.Environ(), "FEDPOST_ACTIVITY="+anActivity)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	want := []string{
		`POST /v1/servers/mastodon.down.example/check`, // without script
		`POST /v1/servers/%2A.mastodon.down.example/block {"reason":"abuse"}`,
		`POST /v1/servers/%2A.bad.example/unblock`,
		`POST /v1/servers/mastodon.down.example/pause {"for":"PT43200S"}`,
		`POST /v1/servers/mastodon.down.example/resume`,
		`POST /v1/servers/mastodon.down.example/check`,
		`PUT /v1/servers/mastodon.down.example {"rateLimit":{"perMinute":60}}`,
		`POST /v1/dead-letters/retry {"host":"hub.example"}`, `POST /v1/dead-letters/retry {"host":"hub.example","failed":true}`,
		`DELETE /v1/dead-letters`,
		`DELETE /v1/servers/gone.example`,
		`DELETE /v1/keys/` + url.PathEscape(aKey),
		`POST /v1/keys {"id":"` + aKey + `","type":"rsa"}`,
		`POST /v1/webhooks/pager/test`,
		`PUT /v1/webhooks/app {"url":"https://social.example/hooks/fedpost","types":["server.gone"]}`,
		`DELETE /v1/webhooks/old`,
		`POST /v1/activities/` + anActivity + `/retry {}`,
		`DELETE /v1/activities/` + anActivity,
		`POST /v1/activities/` + anActivity + `/cancel`,
	}
	if did := trimmed(s.api.did()); !slices.Equal(did, want) {
		t.Errorf("done in the browser: %q, want %q", did, want)
	}
}
