package activity

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/testkit/property"
)

func TestATargetForOneRecipientIsABareURL(t *testing.T) {
	b, err := json.Marshal([]Target{{Inbox: "https://a.example/inbox", Stands: 1}, {Inbox: "https://b.example/inbox", Stands: 12, Shared: true}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `["https://a.example/inbox",{"i":"https://b.example/inbox","n":12,"s":true}]`; string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
}

func TestTargetsSurviveJSON(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want := Target{Inbox: rapid.String().Draw(t, "inbox"), Stands: rapid.IntRange(1, 9).Draw(t, "n"), Shared: rapid.Bool().Draw(t, "shared"), Headers: Headers(rapid.String().Draw(t, "headers")), Written: rapid.String().Draw(t, "written")}
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Target
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Fatalf("%s became %+v (%v), want %+v", b, got, err, want)
		}
	})
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://A.Example/inbox":      "a.example",
		"https://a.example:443/inbox":  "a.example",
		"https://a.example:8443/inbox": "a.example:8443",
		"http://a.example:80/inbox":    "a.example",
		"http://a.example:443/inbox":   "a.example:443",
		"https://a.example./inbox":     "a.example",
		"https://[2001:DB8::1]/inbox":  "[2001:db8::1]",
		"https://[::1]:8443/inbox":     "[::1]:8443",
		"://":                          "",
	} {
		if got := HostOf(url); got != want {
			t.Errorf("HostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestADerivedIDIsTheSameForTheSameNameAndTime(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	a, b := DerivedID(at, "x"), DerivedID(at, "x")
	if a != b || a == DerivedID(at, "y") || a == DerivedID(at.Add(time.Minute), "x") {
		t.Errorf("ids %s %s", a, b)
	}
	if p, err := ParseID(string(a)); err != nil || p != a {
		t.Errorf("ParseID(%s) = %s, %v", a, p, err)
	}
	if a >= DerivedID(at.Add(time.Minute), "a") {
		t.Error("ids do not sort by time")
	}
}

func TestParseIDRefusesWhatIsNoID(t *testing.T) {
	for _, s := range []string{"", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAU!", "01ARZ3NDEKTSV4RRFFQ69G5FA", "../../etc/passwd", "81ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %s, want an error", s, id)
		}
	}
}

func TestHeadersAreReadAsTheyWereWritten(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Header {
			return Header{Name: rapid.String().Draw(t, "name"), Value: rapid.String().Draw(t, "value"), Sign: rapid.Bool().Draw(t, "sign")}
		}), 0, 8).Draw(t, "headers")
		h := NewHeaders(want)
		got, err := h.List()
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s became %+v (%v), want %+v", h, got, err, want)
		}
		if len(want) == 0 && h != "" {
			t.Fatalf("no headers became %q, want an empty text", h)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%+v became %+v", want[i], got[i])
			}
		}
	})
	if _, err := Headers("x").List(); err == nil {
		t.Error("what is no list is read")
	}
}
