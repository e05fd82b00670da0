package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// credentialsDirectory is the variable that names a directory of files with one secret each.
// systemd sets it for LoadCredential= (https://systemd.io/CREDENTIALS/); a container can set it
// to where its secrets are mounted.
const credentialsDirectory = "CREDENTIALS_DIRECTORY"

// credentialSize is the largest size of a credential, in bytes.
const credentialSize = 16 << 10

// Credential returns the file of a credential, if the process was given one of that name.
func Credential(name string) (file string, ok bool) {
	dir := os.Getenv(credentialsDirectory)
	if dir == "" {
		return "", false
	}
	file = filepath.Join(dir, name)
	// The reader of an unreadable credential reports the error.
	_, err := os.Stat(file)
	return file, !errors.Is(err, fs.ErrNotExist)
}

// credentials puts the secret settings of cfg that are credentials, files with the name of the
// variable, into environ.
func credentials(cfg any, environ map[string]string) (faults []Fault, faulty map[string]bool) {
	faulty = map[string]bool{}
	for _, s := range Settings(cfg) {
		file, ok := Credential(s.Name)
		if !s.Secret || !ok || faulty[s.Name] {
			continue
		}
		text, err := readCredential(file)
		switch {
		case environ[s.Name] != "" && environ[s.Name] != text:
			faults = append(faults, Fault{s.Name, "is set both in the environment and as a credential", "unset the variable, or remove " + file})
		case err != nil:
			faults = append(faults, Fault{s.Name, "cannot be read: " + err.Error(), "put the secret into that file, and nothing else"})
		default:
			environ[s.Name] = text
			continue
		}
		faulty[s.Name] = true
	}
	return faults, faulty
}

// readCredential reads a secret without the line break that editors add.
func readCredential(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, credentialSize+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > credentialSize:
		return "", fmt.Errorf("%s has more than %d bytes", file, credentialSize)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return secret, nil
}
