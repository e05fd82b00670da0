package message

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"fedpost/internal/activity"
	"fedpost/internal/engine/queue"
)

func sample(body string) Message {
	return Message{
		Activity: &activity.Activity{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Protocol: activity.ActivityPub, Body: body, Options: activity.Options{KeyID: "https://a.example/u#main-key"}, CreatedAt: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)},
		Deliver:  &Delivery{Chunk: 3, Position: Whole, Targets: []activity.Target{{Inbox: "https://b.example/inbox", Stands: 2}}},
	}
}

func TestTheBodySurvivesTheQueueByteForByte(t *testing.T) {
	for _, body := range []string{
		"{ \"a\" :\t1,\r\n \"a\":2 }", `{"html":"<p>&amp; \u003cb\u003e \/ </p>"}`, "{\"x\":\"\u2028\u2029🦉é\"}",
		`{"s":"` + strings.Repeat("ü<", 100_000) + `"}`, "{\"nul\":\"\\u0000\"}",
	} {
		s, err := Encode(sample(body))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(s)
		if err != nil {
			t.Fatal(err)
		}
		if m.Activity.Body != body {
			t.Errorf("body changed: %.60q became %.60q", body, m.Activity.Body)
		}
		want := sample(body)
		want.Version = Version
		if !reflect.DeepEqual(m, want) {
			t.Errorf("got %+v, want %+v", m, want)
		}
	}
}

// TestABodyThatIsStoredOnceIsInNoMessage: a version that does not know of it would send an
// empty body, so the message has another version.
func TestABodyThatIsStoredOnceIsInNoMessage(t *testing.T) {
	want := sample("the body")
	want.Activity.Apart = activity.Apart{Parts: 2, Until: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	for name, in := range map[string]Message{"alone": want, "in a batch": {Batch: []Message{want}}} {
		s, err := Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(s, "the body") {
			t.Errorf("%s: the body is in %s", name, s)
		}
		got, err := Decode(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Batch) > 0 {
			got = got.Batch[0]
		}
		if got.Version == Version || got.Activity.Body != "" || got.Activity.Apart != want.Activity.Apart {
			t.Errorf("%s: got version %d, %+v", name, got.Version, got.Activity)
		}
	}
	if want.Activity.Body != "the body" {
		t.Error("Encode took the body from its caller")
	}
	fan := Message{Activity: want.Activity, FanOut: &FanOut{Targets: want.Deliver.Targets}}
	if s, err := Encode(fan); err != nil || !strings.Contains(s, "the body") {
		t.Errorf("a fan-out, which the body is stored from, lacks it: %s, %v", s, err)
	}
}

func TestMarkupIsNotInflated(t *testing.T) {
	body := strings.Repeat("<&>", 1000)
	s, err := Encode(sample(body))
	if err != nil {
		t.Fatal(err)
	}
	if len(s) > len(body)+500 {
		t.Errorf("%d bytes of markup became a message of %d", len(body), len(s))
	}
}

func TestWhatIsNotOursIsMalformed(t *testing.T) {
	for name, s := range map[string]string{
		"empty":               ``,
		"not JSON":            `hello`,
		"no version":          `{"ref":{"id":"a","parts":1}}`,
		"newer version":       `{"v":99,"ref":{"id":"a","parts":1}}`,
		"newer part":          `{"v":1,"batch":[{"v":99}]}`,
		"newer, other types":  `{"v":99,"ref":"a","batch":7}`,
		"no work":             `{"v":1}`,
		"two kinds":           `{"v":1,"ref":{"id":"a","parts":1},"batch":[{"v":1,"ref":{"id":"a","parts":1}}]}`,
		"no activity":         `{"v":1,"deliver":{"chunk":0,"pos":-1,"targets":["https://a.example/"]}}`,
		"no targets":          `{"v":1,"activity":{"id":"x"},"deliver":{"chunk":0,"pos":-1,"targets":[]}}`,
		"position of many":    `{"v":1,"activity":{"id":"x"},"deliver":{"chunk":0,"pos":1,"targets":["https://a.example/","https://b.example/"]}}`,
		"batch in a batch":    `{"v":1,"batch":[{"v":1,"batch":[{"v":1,"ref":{"id":"a","parts":1}}]}]}`,
		"bad part of a batch": `{"v":1,"batch":[{"v":1}]}`,
	} {
		if _, err := Decode(s); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", name, err)
		} else if got, want := errors.Is(err, ErrNewer), strings.HasPrefix(name, "newer"); got != want {
			t.Errorf("%s: of a newer version: %v, want %v (%v)", name, got, want, err)
		}
	}
}

func FuzzDecodeNeverPanicsAndIsStable(f *testing.F) {
	s, err := Encode(sample(`{"type":"Like"}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add(`{"v":1,"batch":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Decode(s)
		if err != nil {
			return
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatalf("does not decode a second time: %v", err)
		}
	})
}

// TestEveryCharacterIsCarried: whatever a body holds, every queue takes its
// message, and the body comes back byte for byte.
func TestEveryCharacterIsCarried(t *testing.T) {
	const run = 1 << 10
	for first := rune(0); first <= utf8.MaxRune; first += run {
		var b strings.Builder
		for r := first; r < first+run; r++ {
			if utf8.ValidRune(r) {
				b.WriteRune(r)
			}
		}
		for _, body := range []string{b.String(), `{"content":"\` + b.String() + `\\"}`} {
			m := sample(body)
			m.Activity.OrderingKey, m.Deliver.Targets[0].Inbox = body, "https://b.example/"+body
			s, err := Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			if err := (queue.Message{Body: s}).Check(false); err != nil && body != "" {
				t.Errorf("from %U: %v", first, err)
			}
			got, err := Decode(s)
			if err != nil || got.Activity.Body != body || got.Activity.OrderingKey != body || got.Deliver.Targets[0].Inbox != "https://b.example/"+body {
				t.Errorf("from %U: the texts changed, %v", first, err)
			}
		}
	}
}
