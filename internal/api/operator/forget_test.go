package operator_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/servers/circuit"
)

// gone expects 204.
func (w *world) gone(path string) {
	w.Helper()
	if a := w.do("DELETE", path, ""); a.status != http.StatusNoContent {
		w.Errorf("DELETE %s: %d %s", path, a.status, a.body)
	}
}

func TestDeadLettersAreDropped(t *testing.T) {
	w := newWorld(t)
	one := w.giveUp("Create", "a.example")
	w.giveUp("Create", "b.example")
	for range 3 {
		w.giveUp("Like", "c.example")
	}
	for _, c := range []struct {
		query string
		want  client.Dropped
		left  int
	}{
		{"host=nobody.example", client.Dropped{}, 5},
		{"id=" + one.Name().String(), client.Dropped{Dropped: 1}, 4},
		{"type=Like&limit=2", client.Dropped{Dropped: 2, More: true}, 2},
		{"host=c.example&since=2026-11-21T00:00:00Z", client.Dropped{Dropped: 1}, 1},
	} {
		var got client.Dropped
		w.must("DELETE", "/v1/dead-letters?"+c.query, "", &got)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.query, got, c.want)
		}
		if left := len(w.deadLetters(url.Values{})); left != c.left {
			t.Errorf("%s: %d left, want %d", c.query, left, c.left)
		}
	}
	for says, query := range map[string]string{
		"say what to drop": "", "say what": "?limit=10", "id is not": "?id=x", "host is not": "?host=a+b",
		"activity is not": "?activity=x", "since is": "?since=x", "between 1 and 10000": "?host=a.example&limit=0", "no query parameter": "?hots=x",
	} {
		w.refused(http.StatusBadRequest, says, "DELETE", "/v1/dead-letters"+query, "")
	}
	w.outage(func() {
		w.refused(http.StatusServiceUnavailable, "0 were", "DELETE", "/v1/dead-letters?host=b.example", "")
	})
}

func TestKeysAreListedAndDeletedOnlyWhenNothingNeedsThem(t *testing.T) {
	w := newWorld(t)
	const key, spare = frida + "#main-key", frida + "/spare-key"
	for _, id := range []string{key, spare} {
		w.must("POST", "/v1/keys", `{"id":"`+id+`","type":"ed25519"}`, new(client.Key))
	}
	var page client.Keys
	w.must("GET", "/v1/keys?limit=1", "", &page)
	if len(page.Keys) != 1 || page.Keys[0].ID != key || page.NextCursor == "" {
		t.Fatalf("listed %+v", page)
	}
	first := page
	page = client.Keys{}
	w.must("GET", "/v1/keys?cursor="+first.NextCursor, "", &page)
	if len(page.Keys) != 1 || page.Keys[0].ID != spare || page.NextCursor != "" {
		t.Errorf("then %+v", page)
	}
	id := w.hand("https://social.example/notes/1", frida, "")
	w.clock = w.clock.Add(3 * 24 * time.Hour)
	path := "/v1/keys/" + url.PathEscape(key)
	w.refused(http.StatusConflict, "needed by 2 waiting deliveries", "DELETE", path, "")
	w.refused(http.StatusConflict, "needed by 2 waiting deliveries", "DELETE", path+"?force=false", "")
	var done client.DeletedKey
	w.must("DELETE", "/v1/keys/"+url.PathEscape(spare), "", &done)
	if done.ID != spare || done.Waiting != 0 || !done.EffectiveBy.Equal(w.clock.Add(time.Minute)) {
		t.Errorf("deleted %+v", done)
	}
	w.must("GET", path, "", new(client.Key)) // a refusal deletes nothing
	w.must("DELETE", path+"?force=true", "", &done)
	if done.ID != key || done.Waiting != 2 {
		t.Errorf("deleted by force: %+v", done)
	}
	w.refused(http.StatusNotFound, "no key", "GET", path, "")
	w.refused(http.StatusNotFound, "no key", "DELETE", path, "")
	w.must("POST", "/v1/activities/"+id+"/cancel", "", new(client.Cancelled))
	w.must("POST", "/v1/keys", `{"id":"`+key+`","type":"ed25519"}`, new(client.Key))
	w.must("DELETE", path, "", &done) // what is cancelled needs no key
	w.refused(http.StatusBadRequest, "one of: true", "DELETE", path+"?force=yes", "")
	w.refused(http.StatusBadRequest, "nextCursor", "GET", "/v1/keys?cursor=!", "")
	w.outage(func() { w.refused(http.StatusServiceUnavailable, "reached", "GET", "/v1/keys", "") })
}

// schemathesis found that such an id was answered 503, as the table cannot hold it.
func TestAnUnusableIDNamesNoKeyToDelete(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{strings.Repeat("\u00a8", 513), "\u00a8", strings.Repeat("k", 1025)} {
		w.refused(http.StatusBadRequest, "not usable", "DELETE", "/v1/keys/"+url.PathEscape(id), "")
	}
}

func TestTheKeyOfAForwardedActivityIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	w.hand("", "https://other.example/users/gus", `,"allowKeyOfOther":true`)
	w.refused(http.StatusConflict, "needed by 2 waiting deliveries", "DELETE", "/v1/keys/"+url.PathEscape(frida+"#main-key"), "")
}

func TestAReplacedKeySaysWhenItIsUsedEverywhere(t *testing.T) {
	w := newWorld(t)
	var k client.StoredKey
	w.must("PUT", "/v1/keys/k", `{"privateKeyPem":"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n-----END PRIVATE KEY-----\n"}`, &k)
	if k.ID != "k" || !k.EffectiveBy.Equal(start.Add(time.Minute)) {
		t.Errorf("stored %+v", k)
	}
}

func TestAServerIsForgottenUnlessDeliveriesWaitForIt(t *testing.T) {
	w := newWorld(t)
	const inbox = "https://a.example/inbox"
	w.refused(http.StatusNotFound, "There is no record", "DELETE", "/v1/servers/a.example", "")
	w.must("POST", "/v1/servers/a.example/block", "", new(client.Server))
	w.must("PUT", "/v1/servers/b.example", `{"rateLimit":{"perMinute":60}}`, new(client.Server))
	w.change(circuit.InboxKey(inbox), func(s circuit.State) circuit.State { return s.Fault(circuit.Default(), "timeout", "x", w.clock) })
	w.gone("/v1/servers/a.example")
	w.gone("/v1/servers/b.example")
	w.gone("/v1/servers/" + url.PathEscape("inbox:"+inbox))
	for _, name := range []string{"a.example", "b.example", "inbox:" + inbox} {
		if s := w.server(name); s.Phase != client.PhaseHealthy || s.RateLimit != nil {
			t.Errorf("%s is %+v", name, s)
		}
	}
	w.change(circuit.HostKey("c.example"), func(s circuit.State) circuit.State { return s.Park(circuit.Default(), w.clock) })
	w.refused(http.StatusConflict, "Deliveries wait", "DELETE", "/v1/servers/c.example", "")
	w.refused(http.StatusConflict, "not possible for this kind", "DELETE", "/v1/servers/https:%2F%2Fpeer.example", "")
	w.refused(http.StatusBadRequest, "no host name", "DELETE", "/v1/servers/a%20b", "")
	w.outage(func() { w.refused(http.StatusServiceUnavailable, "reached", "DELETE", "/v1/servers/c.example", "") })
}

func TestAnActivityIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.must("POST", "/v1/keys", `{"id":"`+frida+`#main-key","type":"ed25519"}`, new(client.Key))
	id := w.hand("https://social.example/notes/1", frida, "")
	path := "/v1/activities/" + id
	w.outage(func() { w.refused(http.StatusServiceUnavailable, "Try again", "DELETE", path, "") })
	w.must("GET", path, "", new(client.Status))
	w.gone(path)
	w.refused(http.StatusNotFound, "no such activity", "GET", path, "")
	w.refused(http.StatusNotFound, "no such activity", "DELETE", path, "")
	w.refused(http.StatusNotFound, "no such activity", "POST", path+"/cancel", "")
	w.refused(http.StatusNotFound, "no such activity", "POST", path+"/retry", "")
	if ids, _ := w.found(url.Values{"actor": {frida}}); len(ids) != 0 {
		t.Errorf("found %v", ids)
	}
	w.refused(http.StatusNotFound, "no such activity", "DELETE", "/v1/activities/x", "")
	w.refused(http.StatusBadRequest, "no query parameter", "DELETE", path+"?force=true", "")
}
