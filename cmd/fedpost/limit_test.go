package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestUpLimitsRequests: the setting reaches the API that `up` serves, and the command line
// says what the limit is.
func TestUpLimitsRequests(t *testing.T) {
	t.Setenv("FEDPOST_REQUESTS_PER_MINUTE", "1")
	s := onServer(t)
	res, err := http.Get(s.url + "/v1/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(res.Header.Get("RateLimit"), `"anyone";r=0;`) {
		t.Errorf("answered %d %v", res.StatusCode, res.Header)
	}
	s.run([]string{"keys", "list"})
	// A request comes back each minute, so no run of twenty gets through whole, however slow
	// the machine is: `up` answers within 29 seconds.
	over := 0
	for range 20 {
		if _, err := s.try("keys", "list"); err != nil && strings.Contains(err.Error(), "limited to 1 a minute") {
			over++
		}
	}
	if over == 0 {
		t.Error("20 requests passed a limit of 1 a minute")
	}
}
