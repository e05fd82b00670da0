package apigateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"fedpost/internal/app/lambda/apigateway"
	"fedpost/internal/testkit/lambda/gateway"
	"fedpost/internal/testkit/openapi"
)

// mux is an API that answers with the pattern of the route it has found.
type mux struct {
	*http.ServeMux
	patterns []string
}

func (m mux) Patterns() []string { return m.patterns }

var wildcard = regexp.MustCompile(`\{(\w+)\}`)

// TestEveryRouteOfTheDescriptionIsReachedThroughAPIGateway in both formats, whatever stands
// in a part of the path that may hold anything.
func TestEveryRouteOfTheDescriptionIsReachedThroughAPIGateway(t *testing.T) {
	d, err := openapi.Load("../../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	api := mux{ServeMux: http.NewServeMux()}
	for _, op := range d.Operations() {
		pattern := op.String()
		api.patterns = append(api.patterns, pattern)
		api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Pattern", pattern)
			defer w.WriteHeader(http.StatusNoContent)
			if names := wildcard.FindStringSubmatch(pattern); names != nil {
				w.Header().Set("Value", url.QueryEscape(r.PathValue(names[1])))
			}
		})
	}
	handler := apigateway.New(api)
	for _, format := range []gateway.Format{gateway.REST, gateway.HTTP} {
		c := http.Client{Transport: gateway.Transport{Format: format, Invoke: func(ctx context.Context, event []byte) ([]byte, error) {
			answer, err := handler(ctx, event)
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		}}}
		for _, op := range d.Operations() {
			for _, value := range []string{"a.example", "*.a.example", "inbox:https://a.example/users/é", "https://a.example/u#main-key", "100%"} {
				path := wildcard.ReplaceAllLiteralString(op.Path, url.PathEscape(value))
				req, err := http.NewRequestWithContext(t.Context(), op.Method, "https://api.example"+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatalf("format %s: %s %s: %v", format, op.Method, path, err)
				}
				_ = resp.Body.Close()
				if got := resp.Header.Get("Pattern"); got != op.String() {
					t.Errorf("format %s: %s %s reached %q, want %q", format, op.Method, path, got, op)
				}
				if want := url.QueryEscape(value); path != op.Path && resp.Header.Get("Value") != want {
					t.Errorf("format %s: %s %s: the part is %q, want %q", format, op.Method, path, resp.Header.Get("Value"), want)
				}
			}
		}
	}
}
