// Package config reads fedpost's settings from the environment, once, at start,
// and refuses to start with a setting that cannot be right.
//
// It reports all faults together, each with the variable's name, what is wrong with the value and
// what to do.
//
// There is one struct for each concern. A program's settings are a struct of concerns (Enqueue,
// Deliver, HealthCheck, Local), which tests compare with the documentation and template.yaml.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Load fills cfg, a pointer to a struct whose fields are structs of this package,
// from the process's environment and its credentials. An error is an *Error.
func Load(cfg any) error {
	environ := env.ToMap(os.Environ())
	faults, faulty := credentials(cfg, environ)
	return from(cfg, environ, faults, faulty)
}

// From does what Load does, from the given environment.
func From(cfg any, environ map[string]string) error {
	return from(cfg, environ, nil, map[string]bool{})
}

// from adds to faults, which are about the variables in faulty.
func from(cfg any, environ map[string]string, faults []Fault, faulty map[string]bool) error {
	for _, concern := range concerns(cfg) {
		faults = append(faults, load(concern, environ, faulty)...)
	}
	if len(faults) > 0 {
		return &Error{Faults: faults}
	}
	return nil
}

// concerns returns pointers to the structs that cfg is made of.
func concerns(cfg any) []reflect.Value {
	v := reflect.ValueOf(cfg).Elem()
	var all []reflect.Value
	for i := range v.NumField() {
		all = append(all, v.Field(i).Addr())
	}
	return all
}

// checker is a concern with rules that involve more than one variable.
type checker interface{ check(*report) }

func load(concern reflect.Value, environ map[string]string, faulty map[string]bool) []Fault {
	preset(concern)
	r := &report{fields: fields(concern.Type().Elem()), env: environ, faulty: faulty}
	err := env.ParseWithOptions(concern.Interface(), env.Options{Environment: environ, FuncMap: parsers})
	r.parsed(err)
	r.bounds(concern.Elem())
	if c, ok := concern.Interface().(checker); ok {
		c.check(r)
	}
	return r.faults
}

// Setting is one variable, described for operators.
type Setting struct {
	Name     string
	Concern  string // the struct it belongs to
	Default  string
	Required bool
	Secret   bool
	Help     string // what to set it to
	Min, Max string
}

// Settings lists what cfg reads, in the order of its fields.
func Settings(cfg any) []Setting {
	var all []Setting
	for _, concern := range concerns(cfg) {
		for _, f := range fields(concern.Type().Elem()) {
			all = append(all, f.Setting)
		}
	}
	return all
}

// Names lists the variables that cfg reads, sorted.
func Names(cfg any) []string {
	names := map[string]bool{}
	for _, s := range Settings(cfg) {
		names[s.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// field is a Setting together with its struct field.
type field struct {
	Setting
	index int
	name  string
}

// fields reads the tags of a concern. It panics if a field has no name or no help text.
func fields(t reflect.Type) []field {
	var all []field
	preset := preset(reflect.New(t)).Elem()
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag
		s := Setting{
			Name: tag.Get("env"), Concern: t.Name(), Default: tag.Get("envDefault"), Help: tag.Get("help"),
			Required: tag.Get("must") == "set", Secret: tag.Get("secret") == "true",
			Min: tag.Get("min"), Max: tag.Get("max"),
		}
		if s.Default == "" && !preset.Field(i).IsZero() {
			s.Default = written(preset.Field(i).Interface())
		}
		if s.Name == "" || s.Help == "" {
			panic(fmt.Sprintf("config: %s.%s has no variable or no help text", t.Name(), f.Name))
		}
		all = append(all, field{Setting: s, index: i, name: f.Name})
	}
	return all
}

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
