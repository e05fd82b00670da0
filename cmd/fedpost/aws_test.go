package main

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
)

// operator sets the given variables and removes every other variable of AWS.
func operator(t *testing.T, set ...string) {
	t.Helper()
	home := t.TempDir()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	for _, name := range config.Names(&config.AWS{}) {
		t.Setenv(name, "")
	}
	for name, value := range map[string]string{
		"HOME": home, "AWS_CONFIG_FILE": filepath.Join(home, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "credentials"),
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "", "AWS_REGION": "eu-central-1",
	} {
		t.Setenv(name, value)
	}
	for i := 0; i < len(set); i += 2 {
		t.Setenv(set[i], set[i+1])
	}
}

// complete are the settings of an installation.
func complete(more ...string) []string {
	set := []string{"TABLE_NAME", "fedpost", "KMS_KEY_ID", "alias/fedpost"}
	for _, role := range []string{"HIGH", "NORMAL", "LOW", "ORDERED.fifo", "DEAD", "DEAD_ORDERED.fifo"} {
		set = append(set, "QUEUE_URL_"+strings.TrimSuffix(role, ".fifo"), "https://sqs.eu-central-1.amazonaws.com/123456789012/"+role)
	}
	return append(set, more...)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// TestHalfAConfigurationForAWSIsRefused: an empty file in place of the table would not be noticed
// for a while.
func TestHalfAConfigurationForAWSIsRefused(t *testing.T) {
	for _, set := range [][]string{
		{"AWS_ENDPOINT_URL", "http://127.0.0.1:4566"},
		{"TABLE_NAME", "fedpost"},
		{"KMS_KEY_ID", "alias/fedpost"},
		{"QUEUE_URL_HIGH", "https://sqs.eu-central-1.amazonaws.com/123456789012/high"},
	} {
		t.Run(set[0], func(t *testing.T) {
			operator(t, set...)
			dir := filepath.Join(t.TempDir(), "data")
			_, err := start(t.Context(), dir, local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
			e, ok := errors.AsType[*config.Error](err)
			if !ok || !strings.Contains(err.Error(), "asked for by "+set[0]) || !strings.Contains(err.Error(), "QUEUE_URL_DEAD is not set") {
				t.Fatalf("got %v", err)
			}
			for _, f := range e.Faults {
				if f.Variable == set[0] {
					t.Errorf("%s is set: %s", set[0], f)
				}
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is a data directory: %v", err)
			}
		})
	}
}

func TestMissingCredentialsAndRegionAreNamedAtStart(t *testing.T) {
	operator(t, complete()...)
	_, err := start(t.Context(), t.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
	if err == nil || !strings.Contains(err.Error(), "no AWS credentials: set AWS_PROFILE") {
		t.Errorf("got %v", err)
	}
	operator(t, complete("AWS_REGION", "")...)
	_, err = start(t.Context(), t.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
	if err == nil || !strings.Contains(err.Error(), "set AWS_REGION") {
		t.Errorf("got %v", err)
	}
}

// TestUpRunsOnAWSWithTheCredentialsOfAProfile: TABLE_NAME chooses AWS, and the
// SDK's chain finds who we are.
func TestUpRunsOnAWSWithTheCredentialsOfAProfile(t *testing.T) {
	signed, end := make(chan string, 1), make(chan struct{})
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case signed <- r.Header.Get("Authorization"):
		default:
		}
		select {
		case <-end:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer aws.Close()
	operator(t, complete("AWS_ENDPOINT_URL", aws.URL, "AWS_PROFILE", "operator")...)
	profile := "[operator]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = secret\n"
	if err := os.WriteFile(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := start(t.Context(), t.TempDir(), local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if want := "AWS, table fedpost in eu-central-1, at " + aws.URL; f.engine != want {
		t.Errorf("the engine is %q, want %q", f.engine, want)
	}
	if got := <-signed; !strings.Contains(got, "Credential=AKIDPROFILE/") {
		t.Errorf("a request is signed %q", got)
	}
	close(end)
	// The error comes from the counts, which cannot be written to that table.
	_ = f.stop(nil, 5*time.Second)
}

func TestWithoutSettingsOfAWSUpRunsOnAFile(t *testing.T) {
	operator(t)
	dir := t.TempDir()
	f, err := start(t.Context(), dir, local.ListenConfig{Listen: "127.0.0.1:0"}, false, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if want := "SQLite, " + filepath.Join(dir, "fedpost.db"); f.engine != want {
		t.Errorf("the engine is %q, want %q", f.engine, want)
	}
	if err := f.stop(nil, 5*time.Second); err != nil {
		t.Error(err)
	}
}
