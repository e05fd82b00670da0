package outbound

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestAStatusLineIsReadAsNetHTTPReadsIt: what net/http refuses, or takes for another status, is
// no delivery, also where the rest of the answer cannot be read and the line alone counts.
func TestAStatusLineIsReadAsNetHTTPReadsIt(t *testing.T) {
	const empty = "\r\nContent-Length: 0\r\n\r\n"
	for line, want := range map[string]string{ // "": refused
		"HTTP/1.1 200 OK":  "200",
		"HTTP/1.1 200":     "200",
		"HTTP/1.1 200 ":    "200",
		"HTTP/1.1  200 OK": "200",
		"HTTP/1.0 200 OK":  "200",
		"HTTP/1.1 299 " + strings.Repeat("x", 3000): "299",
		"HTTP/1.1 099": "99",
		"HTTP/1.1 099" + empty + "HTTP/1.1 200 OK":          "99",
		"HTTP/1.1 000 OK":                                   "0",
		"HTTP/1.1 +20 OK":                                   "20",
		"HTTP/1.1 103 Early" + "\r\n\r\n" + "HTTP/1.1 200":  "200",
		"HTTP/1.1 103 Early" + "\r\n\r\n" + "HTTP/1.10 200": "",
		"HTTP/1.1 -20 OK":                                   "",
		"HTTP/1.10 200 OK":                                  "",
		"HTTP/1 200 OK":                                     "",
		"HTTP/01.1 200 OK":                                  "",
		"http/1.1 200 OK":                                   "",
		" HTTP/1.1 200 OK":                                  "",
		"HTTP/1.1\t200 OK":                                  "",
		"HTTP/1.1 200\tOK":                                  "",
		"HTTP/1.1 2000 OK":                                  "",
		"HTTP/1.1 20 OK":                                    "",
		"HTTP/1.1 2 00 OK":                                  "",
		"HTTP/1.1 ２００ OK":                                   "",
		"HTTP/1.1 200,OK":                                   "",
		"HTTP/1.1":                                          "",
		"":                                                  "",
	} {
		t.Run(line[:min(len(line), 40)], func(t *testing.T) {
			address := "http://" + listen(t, say(line+empty))
			read := func(status int, err error) string {
				if err != nil {
					return ""
				}
				return fmt.Sprint(status)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				plain = &http.Response{Body: http.NoBody}
			}
			plain.Body.Close()
			if got := read(plain.StatusCode, err); got != want {
				t.Errorf("net/http reads %q, the table says %q", got, want)
			}
			a, err := post(t, trial(t, nil), address)
			if got := read(a.Status, err); got != want {
				t.Errorf("reads %q, not %q: %v", got, want, err)
			}
			a, err = post(t, trial(t, nil), "http://"+listen(t, say(line+"\r\nnonsense\r\n\r\n")))
			if got := read(a.Status, err); strings.HasPrefix(want, "2") && len(want) == 3 && got != want || got != want && got != "" {
				t.Errorf("reads %q of the line alone, not %q: %v", got, want, err)
			}
		})
	}
}
