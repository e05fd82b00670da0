package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"fedpost/internal/api/problem"
)

// FuzzObject reads any body: it is an object with every field of it and its
// exact bytes, or it is refused with a place inside the text.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"a\" : [ 1 ]\n}", `[`, "\ufeff", `{"\u0061":{}}`, `nul`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		o := readObject(r)
		err := o.faults.unread
		var want map[string]json.RawMessage
		sound := utf8.Valid(body) && json.Unmarshal(body, &want) == nil && want != nil
		if sound && err != nil {
			t.Fatalf("an object that is sound is refused: %v", err)
		}
		if !sound && err == nil {
			t.Fatal("what is no sound object is taken")
		}
		if err != nil {
			if p := problem.Of(err); p.Status != http.StatusBadRequest {
				t.Fatalf("error %v", err)
			}
			return
		}
		twice := !o.faults.none()
		if len(o.fields) != len(want) {
			t.Fatalf("%d fields, want %d", len(o.fields), len(want))
		}
		for name, value := range want {
			if got, ok := o.fields[name]; !ok || !twice && !bytes.Equal(got, value) {
				t.Fatalf("field %q is %q, want %q", name, got, value)
			}
		}
		for name := range want {
			o.optional(name)
		}
	})
}

// FuzzText: what is taken as a string decodes without loss.
func FuzzText(f *testing.F) {
	for _, s := range []string{`"a"`, `"\ud83d\udc18"`, `"\ud83d"`, `"\\ud83d"`, `"\udc18\ud83d"`, `"\ud83d\ud83d\udc18"`, `"\u005cud800"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !json.Valid([]byte(value)) || !utf8.ValidString(value) || !strings.HasPrefix(value, `"`) {
			return
		}
		s, fault := text(json.RawMessage(value))
		if fault != "" {
			return
		}
		// A replacement character has to have been there before.
		if n := strings.Count(s, "\ufffd"); n > strings.Count(value, "\ufffd")+strings.Count(strings.ToLower(value), `\ufffd`) {
			t.Errorf("%s became %q", value, s)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{`1`, `"PT1H"`, `"P1D"`, `1e400`, `-0`, `"PT"`, `"P1Y"`, `"PT1e3S"`, `"PTNaNS"`, `"PTInfS"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if value == "" || !json.Valid([]byte(value)) || strings.TrimSpace(value) != value {
			return
		}
		if d, err := parseDuration(json.RawMessage(value)); err == nil && d < 0 {
			t.Errorf("%s is %s", value, d)
		}
	})
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{`"a"`, `a`, `"a\"b"`, `"`, `"a";b`, `""`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if key, err := idempotencyKey([]string{header}); err == nil && key == "" {
			t.Errorf("%q is the empty key", header)
		}
	})
}
