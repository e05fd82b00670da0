package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/app/lambda/apigateway"
)

// keys is an API with the route of keys only.
type keys struct{ http.HandlerFunc }

func (keys) Patterns() []string { return []string{"PUT /v1/keys/{id}"} }

func TestARequestArrivesAsItWasSent(t *testing.T) {
	const body = `{"content":"<p>größe & 🐘</p>"}`
	handler := apigateway.New(keys{func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body || r.Method != "PUT" || r.URL.Path != "/v1/keys/https://a.example/u#k" ||
			r.URL.Query().Get("q") != "a b" || r.Header.Get("Idempotency-Key") != `"1, 2"` || r.Host != "api.example" {
			t.Errorf("got %s %s %q %v, %v", r.Method, r.URL, got, r.Header, err)
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusConflict)
		if _, err := io.WriteString(w, "später\x00\xff"); err != nil {
			t.Error(err)
		}
	}})
	for _, format := range []Format{REST, HTTP} {
		c := http.Client{Transport: Transport{Format: format, Invoke: func(ctx context.Context, event []byte) ([]byte, error) {
			answer, err := handler(ctx, event)
			if err != nil {
				return nil, err
			}
			return json.Marshal(answer)
		}}}
		req, err := http.NewRequest("PUT", "https://api.example/v1/keys/https%3A%2F%2Fa.example%2Fu%23k?q=a+b", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", `"1, 2"`)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || string(got) != "später\x00\xff" || resp.StatusCode != http.StatusConflict || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: got %d %q %v, %v", format, resp.StatusCode, got, resp.Header, err)
		}
	}
}

func TestAFunctionThatFailsIsABadGateway(t *testing.T) {
	c := http.Client{Transport: Transport{Invoke: func(context.Context, []byte) ([]byte, error) { return nil, io.ErrUnexpectedEOF }}}
	resp, err := c.Get("https://api.example/healthz")
	if err != nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("got %v, %v", resp, err)
	}
}
