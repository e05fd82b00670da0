package api

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAQueryWithSeveralFaultsHasOneAnswer: it is the same each time.
func TestAQueryWithSeveralFaultsHasOneAnswer(t *testing.T) {
	for query, want := range map[string]string{
		"limit=1&limit=2&y=&x=&host=":       `no query parameter "x" here; there are: host, limit.`,
		"host=&limit=1&limit=2":             "host is empty",
		"limit=1&limit=2&host=a&state=":     `no query parameter "state"`,
		"limit=1&limit=2&host=a.example&a=": `no query parameter "a"`,
	} {
		for range 50 {
			err := ReadQuery(httptest.NewRequest("GET", "/?"+query, nil), "host", "limit").Check()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: %v, want %q", query, err, want)
			}
		}
	}
	if err := ReadQuery(httptest.NewRequest("GET", "/?x=1", nil)).Check(); !strings.Contains(err.Error(), "there are: none.") {
		t.Error(err)
	}
}
