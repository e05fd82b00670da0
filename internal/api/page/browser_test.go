package page_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestThePageInABrowser goes through every page in Chromium (browser/page.mjs). It needs
// the folder with the script's packages in FEDPOST_BROWSER and Chromium in
// FEDPOST_CHROMIUM: `make page-shots` installs both. Screenshots go to FEDPOST_SHOTS.
func TestThePageInABrowser(t *testing.T) {
	packages, shots := os.Getenv("FEDPOST_BROWSER"), os.Getenv("FEDPOST_SHOTS")
	if packages == "" {
		t.Skip("FEDPOST_BROWSER names no folder with playwright-core and axe-core: make page-shots")
	}
	if shots == "" {
		shots = t.TempDir()
	}
	// Node looks for packages beside the script.
	script := filepath.Join(packages, "page.mjs")
	text, err := os.ReadFile("browser/page.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, busy(t), true)
	cmd := exec.CommandContext(t.Context(), "node", script, s.url, token, shots)
	cmd.Env = append(os.Environ(), "FEDPOST_ACTIVITY="+anActivity)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
