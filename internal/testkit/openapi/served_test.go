package openapi_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/testkit/openapi"
)

const token = "a token of the test"

// TestTheDescriptionIsOfTheWholeAPI: every served route is described and every described
// route is served, whichever package serves the route. Time is virtual: a webhook's test waits
// ten seconds for its answer.
func TestTheDescriptionIsOfTheWholeAPI(t *testing.T) { synctest.Test(t, wholeAPI) }

func wholeAPI(t *testing.T) {
	d, err := openapi.Load("../../../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	var settings config.Local
	if err := config.From(&settings, nil); err != nil {
		t.Fatal(err)
	}
	handler, err := app.API(settings.Enqueue(), config.Access{Token: token}, app.Ports{
		Table: engine.Table(), Queue: engine.Queue, Sealer: sealer, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}

	var described []string
	for _, op := range d.Operations() {
		described = append(described, op.String())
	}
	var served []string
	for _, p := range handler.Patterns() {
		if strings.HasPrefix(p, "/") {
			// A handler without a method in its pattern checks the method itself. The
			// requests below try the methods that the description lists.
			for _, op := range d.Operations() {
				if op.Path == p {
					served = append(served, op.String())
				}
			}
			continue
		}
		served = append(served, p)
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described %q\nserved    %q", described, served)
	}

	for _, op := range d.Operations() {
		path := op.Path
		for _, name := range []string{"{id}", "{host}"} {
			path = strings.ReplaceAll(path, name, "x")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(op.Method, path, nil))
		if open := w.Code != http.StatusUnauthorized; open != op.Public() {
			t.Errorf("%s: answered %d, described as public: %t", op, w.Code, op.Public())
		}
		if w.Code == http.StatusMethodNotAllowed {
			t.Errorf("%s is not served", op)
		}
		if err := op.CheckAnswer(w.Code, w.Header().Get("Content-Type"), w.Body.Bytes()); err != nil {
			t.Error(err)
		}
		// Now with the token, and with each of the documented bodies.
		examples, err := op.Examples()
		if err != nil {
			t.Fatal(err)
		}
		examples["none"] = nil
		for name, body := range examples {
			r := httptest.NewRequest(op.Method, path, strings.NewReader(string(body)))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if err := op.CheckAnswer(w.Code, w.Header().Get("Content-Type"), w.Body.Bytes()); err != nil {
				t.Errorf("example %s: %v", name, err)
			}
		}
	}
}
