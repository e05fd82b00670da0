package main

import (
	"strings"
	"testing"

	"fedpost/internal/app/config"
)

// TestKeysSipherMakesAnIdentityThatTheProgramsTake: what it prints is the
// environment that they read, each time another one.
func TestKeysSipherMakesAnIdentityThatTheProgramsTake(t *testing.T) {
	made := func() map[string]string {
		var out strings.Builder
		if err := (sipherKeys{Origin: "https://social.example"}).Run(&out); err != nil {
			t.Fatal(err)
		}
		environ := map[string]string{}
		for line := range strings.Lines(out.String()) {
			name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			if !ok {
				t.Errorf("no setting: %q", line)
			}
			environ[name] = value
		}
		return environ
	}
	first, second := made(), made()
	var settings config.Local
	if err := config.From(&settings, first); err != nil {
		t.Fatal(err)
	}
	if id, err := settings.SipherSecrets.Load(settings.SipherIdentity); err != nil || id.Ready() != nil || id.Origin != "https://social.example" {
		t.Errorf("the %d settings are read as %v, %v", len(first), id, err)
	}
	for name, value := range first {
		if name != "BETTER_AUTH_URL" && value == second[name] {
			t.Errorf("%s is the same twice", name)
		}
	}
	// One half of another identity is found out at start.
	first["FEDERATION_PUBLIC_KEY"] = second["FEDERATION_PUBLIC_KEY"]
	if err := config.From(&settings, first); err == nil || !strings.Contains(err.Error(), "FEDERATION_PUBLIC_KEY") {
		t.Errorf("halves that do not belong together: %v", err)
	}
}

func TestKeysSipherRefusesWhatIsNoOrigin(t *testing.T) {
	for _, origin := range []string{"social.example", "https://social.example/", "https://social.example/path", "ftp://social.example"} {
		var out strings.Builder
		if err := (sipherKeys{Origin: origin}).Run(&out); err == nil || out.Len() > 0 {
			t.Errorf("%s: %v, printed %d bytes", origin, err, out.Len())
		}
	}
}
