package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// credentialsOf makes a directory of credentials as a service gets it.
func credentialsOf(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
}

const testToken = "a token of sixteen characters"

func TestASecretSettingCanBeACredential(t *testing.T) {
	credentialsOf(t, map[string]string{"FEDPOST_API_TOKEN": testToken + "\n", "FEDPOST_READ_TOKEN": "another token of these", "RETRY_TRIES": "3"})
	t.Setenv("FEDPOST_READ_TOKEN", "another token of these")
	var l Local
	if err := Load(&l); err != nil {
		t.Fatal(err)
	}
	if l.Access.Token != testToken || l.Access.Read != "another token of these" {
		t.Errorf("access %+v", l.Access)
	}
	if l.Retry.Tries != nil {
		t.Error("a setting that is no secret is read of a credential")
	}
}

func TestFaultsOfCredentialsAreReportedWithTheOthers(t *testing.T) {
	for about, c := range map[string]struct {
		text, variable, says string
	}{
		"too short":   {"short", "", "fewer than 16 characters"},
		"empty":       {"\n", "", "is empty"},
		"too large":   {strings.Repeat("x", credentialSize+1), "", "more than 16384 bytes"},
		"said twice":  {testToken, "another token of sixteen", "is set both in the environment and as a credential"},
		"a directory": {"", "", "cannot be read"},
	} {
		credentialsOf(t, map[string]string{"FEDPOST_API_TOKEN": c.text})
		if about == "a directory" {
			file := filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "FEDPOST_API_TOKEN")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("FEDPOST_API_TOKEN", c.variable)
		t.Setenv("QUEUE_TYPE", "lifo")
		err := Load(&Local{})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), "\n  FEDPOST_API_TOKEN ") != 1 || !strings.Contains(err.Error(), "QUEUE_TYPE") {
			t.Errorf("%s: %v; want %q once, and the fault of QUEUE_TYPE", about, err, c.says)
		}
		if err != nil && (strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), c.variable) && c.variable != "") {
			t.Errorf("%s: the secret is printed: %v", about, err)
		}
	}
}
