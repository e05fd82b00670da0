package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"fedpost/client"
)

// TestARedirectIsNotFollowed: neither a token nor a body gets to its target.
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
		if !errors.Is(last, client.ErrNotFedpost) || !strings.Contains(last.Error(), "pages repeat") || n > 2*len(next) {
			t.Errorf("%v: %d entries, then %v", next, n, last)
		}
	}
}

// TestPagesWithoutEntriesEndInAnError: a caller cannot stop a loop that returns nothing.
func TestPagesWithoutEntriesEndInAnError(t *testing.T) {
	asked := 0
	c := to(t, func(*http.Request) (int, string, string) {
		if asked++; asked > 20_000 {
			return 400, "", `{"title":"Too often"}`
		}
		entries := "" // one in the middle, which begins the count anew
		if asked == 5000 {
			entries = "{}"
		}
		return 200, "", fmt.Sprintf(`{"servers":[%s],"nextCursor":"%s%d"}`, entries, strings.Repeat("x", 1000), asked)
	})
	var last error
	for _, err := range c.Servers(t.Context(), client.ServerQuery{}) {
		last = err
	}
	if !errors.Is(last, client.ErrNotFedpost) || !strings.Contains(last.Error(), "10000 pages in a row have no entry") || asked != 15_000 {
		t.Errorf("%v after %d pages", last, asked)
	}
}

// TestARefusalDisturbsNeitherLogNorTerminal, however long it is and whatever is in it.
func TestARefusalDisturbsNeitherLogNorTerminal(t *testing.T) {
	const odd = `\u001b]0;owned\u0007\u009b31m\u202e\n`
	long := strings.Repeat("x", 500_000)
	fault := `{"pointer":"` + odd + `","detail":"\r\n` + odd + `"}`
	for name, body := range map[string]string{
		"its texts":  `{"title":"` + odd + long + `","detail":"` + odd + long + `","requestId":"` + odd + `"}`,
		"its faults": `{"title":"No","errors":[` + strings.Repeat(fault+",", 5000) + fault + `]}`,
		"no JSON":    "down\x1b[31m\r\n" + long,
	} {
		c := to(t, func(*http.Request) (int, string, string) { return 404, "", body })
		_, err := c.Activity(t.Context(), "x")
		var p *client.Problem
		if !errors.As(err, &p) || len(err.Error()) > 20_000 || strings.ContainsFunc(err.Error()+p.RequestID, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }) {
			t.Errorf("%s: %d bytes: %.300q", name, len(err.Error()), err)
		}
	}
}

// TestALongCursorIsNotPrintedWhole, nor is a feed's that stands still.
func TestALongCursorIsNotPrintedWhole(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	c := to(t, func(r *http.Request) (int, string, string) {
		return 200, "", `{"servers":[],"nextCursor":"` + long + `","events":[{"id":"evt_1"}],"next":"` + long + `"}`
	})
	lists := map[string]error{}
	for _, err := range c.Servers(t.Context(), client.ServerQuery{}) {
		lists["servers"] = err
	}
	_, lists["events"] = c.EventPage(t.Context(), client.EventQuery{After: long})
	for name, err := range lists {
		if !errors.Is(err, client.ErrNotFedpost) || len(err.Error()) > 1000 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

// TestALogOfTheClientHasNoToken, whatever the verb.
func TestALogOfTheClientHasNoToken(t *testing.T) {
	c := to(t, nil, client.Token("hunter2"))
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %q", c, c, c)} {
		if strings.Contains(text, "hunter2") || !strings.Contains(text, "http://fedpost.test") {
			t.Error(text)
		}
	}
}
