package inside

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"fedpost/client"
)

func TestAClientInsideAsksTheHandlerOfItsProcess(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot) // too late
		_ = json.NewEncoder(w).Encode(map[string]string{
			"asked": r.Method + " " + r.URL.EscapedPath() + " " + r.RequestURI + " " + string(b), "as": r.Header.Get("Authorization"),
		})
	})
	var got map[string]string
	if err := Client(api, "secret").Do(t.Context(), "POST", "/v1/servers/a%2Fb?x=1", []byte("{}"), &got); err != nil {
		t.Fatal(err)
	}
	if got["asked"] != "POST /v1/servers/a%2Fb /v1/servers/a%2Fb?x=1 {}" || got["as"] != "Bearer secret" {
		t.Errorf("asked %v", got)
	}
}

func TestAClientInsideHearsOfProblemsAndOfItsEnd(t *testing.T) {
	err := Client(http.NotFoundHandler(), "").Do(t.Context(), "GET", "/v1/nothing", nil, nil)
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })
	if err := Client(silent, "").Do(ctx, "GET", "/v1/nothing", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
