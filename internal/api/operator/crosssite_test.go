package operator_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"fedpost/client"
)

// TestNoWebPageSteersAnything: a page of another site can make a browser send
// requests without a body, or with one of text, to a fedpost on the same machine.
func TestNoWebPageSteersAnything(t *testing.T) {
	w := newWorld(t)
	d, err := description()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string, headers ...string) (int, string) {
		r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		if op := d.Find(method, r.URL.EscapedPath()); op == nil {
			t.Errorf("%s %s is not described", method, path)
		} else if err := op.CheckAnswer(rec.Code, rec.Result().Header.Get("Content-Type"), rec.Body.Bytes()); err != nil {
			t.Error(err)
		}
		return rec.Code, rec.Body.String()
	}
	steering := 0
	for _, op := range d.Operations() {
		if op.Method == "GET" {
			continue
		}
		steering++
		path := strings.NewReplacer("{host}", "social.example", "{id}", "01KAJ5M3ZX8Q5Y0V3T9B6C2D4E").Replace(op.Path)
		for about, headers := range map[string][]string{
			"another site's":                 {"Sec-Fetch-Site", "cross-site"},
			"a neighbour's":                  {"Sec-Fetch-Site", "same-site"},
			"an old browser's":               {"Origin", "https://evil.example"},
			"a sandboxed frame's":            {"Origin", "null"},
			"another port's":                 {"Origin", "http://127.0.0.1:3000"},
			"another site's with JSON":       {"Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"},
			"a page's on a rebound own name": {"Origin", "http://evil.example:8080"},
		} {
			if status, body := ask(op.Method, path, "", headers...); status != 403 {
				t.Errorf("%s: %s request is answered %d %s", op, about, status, body)
			}
		}
		if op.Public() {
			continue
		}
		for _, c := range [][2]string{{"text/plain", "{}"}, {"", "{}"}, {"application/x-www-form-urlencoded", ""}, {"multipart/form-data; boundary=x", ""}} {
			var headers []string
			if c[0] != "" {
				headers = []string{"Content-Type", c[0]}
			}
			if status, body := ask(op.Method, path, c[1], headers...); status != 415 {
				t.Errorf("%s: a body %q of type %q is answered %d %s", op, c[1], c[0], status, body)
			}
		}
	}
	if steering < 12 {
		t.Errorf("%d routes only", steering)
	}
	if v := w.server("social.example"); v.Phase != client.PhaseHealthy {
		t.Errorf("the server is %+v", v)
	}
	// A page of fedpost itself, and a program, may.
	for _, site := range []string{"same-origin", "none", ""} {
		headers := []string{"Sec-Fetch-Site", site}
		if site == "" {
			headers = nil
		}
		if status, body := ask("POST", "/v1/servers/social.example/block", "", headers...); status != 200 {
			t.Errorf("a request from %q is answered %d %s", site, status, body)
		}
	}
}
