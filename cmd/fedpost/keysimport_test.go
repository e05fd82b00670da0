package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/internal/keys"
)

// keyLine is a line of a file of keys.
func keyLine(t *testing.T, id string) string {
	t.Helper()
	pem, err := keys.GeneratePEM(keys.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(map[string]string{"id": id, "privateKeyPem": pem})
	if err != nil {
		t.Fatal(err)
	}
	return string(line) + "\n"
}

func TestKeysAreImportedOnceAndNoneReplacedUnasked(tt *testing.T) {
	t := onServer(tt)
	var all strings.Builder
	for i := range 40 {
		all.WriteString(keyLine(tt, fmt.Sprintf("https://social.example/users/u%d#main-key", i)))
	}
	file := t.file("keys.jsonl", all.String()+"\n")
	t.run([]string{"keys", "import", file}, "40 added, 0 there already, 0 replaced, 0 failed\n")
	t.run([]string{"keys", "import", file}, "0 added, 40 there already, 0 replaced, 0 failed\n")

	const id = "https://social.example/users/u7#main-key"
	before := t.run([]string{"keys", "show", id})
	other := t.file("other.jsonl", keyLine(tt, id)+"{}\nnonsense\n"+keyLine(tt, "a b")+keyLine(tt, "new"))
	out, err := t.try("keys", "import", other)
	if err == nil || err.Error() != "4 of the keys were not imported" || !strings.Contains(out, "1 added, 0 there already, 0 replaced, 4 failed\n") {
		t.Errorf("%v, prints %s", err, out)
	}
	for _, says := range []string{"line 1: not imported: another key of the id " + id + " is stored; --replace", "line 2: ", "line 3: ", "line 4: "} {
		if !strings.Contains(out, says) {
			t.Errorf("prints %s, which lacks %q", out, says)
		}
	}
	if after := t.run([]string{"keys", "show", id}); after != before {
		t.Errorf("the key was %s, and is %s", before, after)
	}
	if out, err := t.try("keys", "import", "--replace", "--json", other); err == nil || !strings.Contains(out, `"replaced": 1`) || !strings.Contains(out, `"there": 1`) {
		t.Errorf("%v, prints %s", err, out)
	}
	if after := t.run([]string{"keys", "show", id}); after == before {
		t.Error("the key was not replaced")
	}
	t.fails("no such file", "keys", "import", filepath.Join(t.TempDir(), "none"))
}

// TestAnImportThatWasStoppedGoesOn: an outage ends it, it reports what is done, and the next run
// does the rest.
func TestAnImportThatWasStoppedGoesOn(tt *testing.T) {
	t := onServer(tt)
	target, err := url.Parse(t.url)
	if err != nil {
		t.Fatal(err)
	}
	var puts atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(target)
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && puts.Add(1) > 30 {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer door.Close()
	var all strings.Builder
	for i := range 60 {
		all.WriteString(keyLine(tt, fmt.Sprint("k", i)))
	}
	file := t.file("keys.jsonl", all.String())
	through := terminal{tt, door.URL}
	if _, err := through.try("keys", "import", file); err == nil || !strings.Contains(err.Error(), "run it again, and it goes on") {
		t.Errorf("ended with %v", err)
	}
	var n imported
	if err := json.Unmarshal([]byte(t.run([]string{"keys", "import", "--json", file})), &n); err != nil {
		t.Fatal(err)
	}
	if n.There == 0 || n.Added < 30 || n.There+n.Added != 60 || n.Failed != 0 {
		t.Errorf("the second run counts %+v", n)
	}
}

// TestALongCommandSaysHowFarItIs each ten seconds, and nothing after its end.
func TestALongCommandSaysHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to strings.Builder
		n := -1
		stop := showingOn(&to, 10*time.Second, "%s\n", "end", func() string {
			if n++; n == 0 {
				return "" // nothing to say yet
			}
			return fmt.Sprint(n, " keys")
		})
		time.Sleep(35 * time.Second)
		stop()
		time.Sleep(time.Minute)
		if got, want := to.String(), "1 keys\n2 keys\nend"; got != want {
			t.Errorf("says %q, want %q", got, want)
		}
	})
}
