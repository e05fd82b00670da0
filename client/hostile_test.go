package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fedpost/client"
)

// TestARedirectIsNotFollowed: neither a token nor a body gets to where it points.
func TestARedirectIsNotFollowed(t *testing.T) {
	var taken []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		taken = append(taken, r.Header.Get("Authorization")+string(body))
		_, _ = io.WriteString(w, `{"id":"ID"}`)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			http.Redirect(w, r, strings.Replace(elsewhere.URL, "http://", "http://user:password@", 1)+"/taken", status)
		}))
		c, err := client.New(server.URL, client.Token("secret"), client.HTTPClient(server.Client()))
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"a read":        second(c.Activity(t.Context(), "x")),
			"a private key": second(c.PutKey(t.Context(), "x", "private")),
		} {
			if err == nil || !errors.Is(err, client.ErrNotFedpost) || !strings.Contains(err.Error(), `that points to "`+elsewhere.URL+`/taken", which is not followed: give the address of fedpost itself`) {
				t.Errorf("%d to %s: %v", status, name, err)
			}
		}
		if asked != 2 {
			t.Errorf("%d: asked %d times", status, asked)
		}
		server.Close()
	}
	if len(taken) > 0 {
		t.Errorf("the other server got %q", taken)
	}
}

// TestNoErrorShowsWhatIsSecret, of an address or a token that New refuses.
func TestNoErrorShowsWhatIsSecret(t *testing.T) {
	for _, address := range []string{"http://frida:hunter2@127.0.0.1:8080", "http://hunter2@127.0.0.1", "http://frida:hunter2%zz@127.0.0.1", "ftp://frida:hunter2@a.example"} {
		_, err := client.New(address)
		if !errors.Is(err, client.ErrAddress) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "give the token with") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, token := range []string{"hunter2\nX-Other: 1", "hunter2\t3", "hunter2\x00", "hunter2é", "hunter2\x7f"} {
		_, err := client.New("http://127.0.0.1:8080", client.Token(token))
		if !errors.Is(err, client.ErrToken) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestSpaceAroundATokenIsDropped(t *testing.T) {
	c := to(t, func(r *http.Request) (int, string, string) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization: %q", got)
		}
		return 200, "", `{"id":"ID"}`
	}, client.Token(" secret\r\n"))
	if _, err := c.Activity(t.Context(), "x"); err != nil {
		t.Error(err)
	}
}

// TestAMalformedRefusalIsAProblemWithItsStatus, and is not printed whole.
func TestAMalformedRefusalIsAProblemWithItsStatus(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "text": "no", "null": "null", "a string": `"no"`, "a list": `[1]`, "a number": "7", "cut off": `{"title":`, "deep": strings.Repeat("[", 100_000),
		"wrong types":  `{"type":1,"title":["x"],"status":"y","detail":{},"errors":{"pointer":2},"id":3}`,
		"wrong faults": `{"title":"No","errors":[null,1,{"pointer":2}]}`,
		"huge":         `{"title":"No","detail":"` + strings.Repeat("x", 70<<20) + `"}`,
	} {
		c := to(t, func(*http.Request) (int, string, string) { return 404, "", body })
		_, err := c.Activity(t.Context(), "x")
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != 404 || p.Title == "" || len(err.Error()) > 1000 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestPagesThatGoInACircleEndInAnError, with any number of pages in the circle.
func TestPagesThatGoInACircleEndInAnError(t *testing.T) {
	for _, next := range []map[string]string{{"": "a", "a": "a"}, {"": "a", "a": "b", "b": "c", "c": "a"}} {
		n := 0
		c := to(t, func(r *http.Request) (int, string, string) {
			return 200, "", `{"servers":[{"server":"1"}],"nextCursor":"` + next[r.URL.Query().Get("cursor")] + `"}`
		})
		var last error
		for _, err := range c.Servers(t.Context(), client.ServerQuery{}) {
			if last = err; err == nil {
				n++
			}
			if n > 10 {
				break
			}
		}
		if !errors.Is(last, client.ErrNotFedpost) || n != len(next) {
			t.Errorf("%v: %d entries, then %v", next, n, last)
		}
	}
}
