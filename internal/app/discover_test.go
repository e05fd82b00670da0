package app_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
	"fedpost/internal/testkit/sipherpeer"
)

// served returns the API as functions/enqueue builds it, and the API's log.
func served(t *testing.T, settings map[string]string, transport http.RoundTripper) (http.Handler, *bytes.Buffer) {
	t.Helper()
	environ := map[string]string{"TABLE_NAME": "fedpost", "KMS_KEY_ID": "alias/fedpost"}
	for _, role := range []string{"HIGH", "NORMAL", "LOW", "ORDERED", "DEAD", "DEAD_ORDERED"} {
		environ["QUEUE_URL_"+role] = "https://sqs.eu-central-1.amazonaws.com/123456789012/" + role
	}
	for _, role := range []string{"ORDERED", "DEAD_ORDERED"} {
		environ["QUEUE_URL_"+role] += ".fifo"
	}
	maps.Copy(environ, settings)
	var c config.Enqueue
	if err := config.From(&c, environ); err != nil {
		t.Fatal(err)
	}
	engine, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	sealer, err := keys.OpenLocalSealer(filepath.Join(t.TempDir(), "sealing.key"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	api, err := app.API(c, config.Access{}, app.Ports{
		Table: engine.Table(), Queue: engine.Queue, Sealer: sealer, Transport: transport,
		Log: slog.New(slog.NewJSONHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return api, &log
}

// worst is the highest level of a log.
func worst(t *testing.T, log *bytes.Buffer) slog.Level {
	t.Helper()
	most := slog.LevelDebug
	for line := range strings.Lines(log.String()) {
		var l struct{ Level slog.Level }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		most = max(most, l.Level)
	}
	return most
}

// public returns the settings without the private keys, as the template sets them
// for the function.
func public(peer *sipherpeer.Peer) map[string]string {
	settings := peer.Settings()
	maps.DeleteFunc(settings, func(name, _ string) bool { return strings.Contains(name, "PRIVATE") })
	return settings
}

func TestTheAPIShowsWhoWeAreAndRegistersOthersWithoutPrivateKeys(t *testing.T) {
	us, other := sipherpeer.New(t, "https://social.example"), sipherpeer.Start(t, "https://b.example")
	api, _ := served(t, public(us), sipherpeer.NewNetwork(other))

	w := httptest.NewRecorder()
	api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/discover", nil))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, us.PublicKey()) || !strings.Contains(body, us.EncryptionKey()) {
		t.Errorf("GET /discover is answered %d %s, want 200 with our keys", w.Code, body)
	}
	w = httptest.NewRecorder()
	claim := `{"method":"REGISTER","url":"https://b.example","publicKey":"` + other.PublicKey() + `","encryptionPublicKey":"` + other.EncryptionKey() + `"}`
	api.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/discover", strings.NewReader(claim)))
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, us.PublicKey()) {
		t.Errorf("POST /discover is answered %d %s, want 200 with our key", w.Code, body)
	}
	w = httptest.NewRecorder()
	job := `{"protocol":"sipher","job":"deliver-follow","serverUrl":"https://b.example","recipients":["https://b.example/follows"],` +
		`"payload":"{\"method\":\"FEDERATE\",\"following\":{\"id\":\"f1\",\"followerId\":\"alice\",\"followingId\":\"bob\",\"followerServerUrl\":\"https://b.example\"}}"}`
	r := httptest.NewRequest(http.MethodPost, "/v1/activities", strings.NewReader(job))
	r.Header.Set("Content-Type", "application/json")
	api.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		t.Errorf("a job: %d %s", w.Code, w.Body)
	}
}

// No request of a stranger is logged as a warning or an error, because it is no
// trouble of ours.
func TestAStrangerAtDiscoverIsNoErrorOfOurs(t *testing.T) {
	us, other := sipherpeer.New(t, "https://social.example"), sipherpeer.New(t, "https://b.example")
	network := sipherpeer.NewNetwork()
	network.Fail("https://b.example", http.ErrHandlerTimeout)
	claim := `{"method":"REGISTER","url":"https://b.example","publicKey":"` + other.PublicKey() + `","encryptionPublicKey":"` + other.EncryptionKey() + `"}`
	for name, tt := range map[string]struct {
		settings     map[string]string
		method, body string
		status       int
	}{
		"asks where there is no Sipher":        {nil, http.MethodGet, "", http.StatusNotFound},
		"registers where there is no Sipher":   {nil, http.MethodPost, claim, http.StatusNotFound},
		"registers a server that is not there": {public(us), http.MethodPost, claim, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			api, log := served(t, tt.settings, network)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(tt.method, "/discover", strings.NewReader(tt.body)))
			if w.Code != tt.status || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s /discover with %q is answered %d %v %s, want a problem of status %d", tt.method, tt.body, w.Code, w.Header(), w.Body, tt.status)
			}
			if level := worst(t, log); level > slog.LevelInfo {
				t.Errorf("logged at %s: %s", level, log)
			}
		})
	}
}
