package circuit

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

const week = 7 * 24 * time.Hour

// took is s after an inbox refused a form and accepted another. The inbox "shared" is the shared one;
// before: it had accepted what it now refuses.
func took(s State, inbox, refused, form string, before bool, now time.Time) State {
	return s.TookForm(rules, FormTaken{
		Inbox: inbox, Refused: refused, Form: form, Shared: inbox == "shared", AcceptedRefused: before, Until: now.Add(week),
	}, now)
}

// TestAFormIsBelievedAfterTwoDeliveries that are far enough apart not to be one
// passing trouble, and near enough to each other to have one cause.
func TestAFormIsBelievedAfterTwoDeliveries(t *testing.T) {
	type taken struct {
		after time.Duration // the one before
		form  string
	}
	for name, c := range map[string]struct {
		took []taken
		want string
	}{
		"once":                         {[]taken{{0, "b"}}, ""},
		"many times within a minute":   {[]taken{{0, "b"}, {20 * time.Second, "b"}, {20 * time.Second, "b"}, {19 * time.Second, "b"}}, ""},
		"a minute apart":               {[]taken{{0, "b"}, {time.Minute, "b"}}, "b"},
		"within a minute, and later":   {[]taken{{0, "b"}, {30 * time.Second, "b"}, {30 * time.Second, "b"}}, "b"},
		"two days apart":               {[]taken{{0, "b"}, {48 * time.Hour, "b"}}, ""},
		"two days apart, and an hour":  {[]taken{{0, "b"}, {48 * time.Hour, "b"}, {time.Hour, "b"}}, "b"},
		"another form between":         {[]taken{{0, "b"}, {time.Hour, "a"}, {time.Hour, "b"}}, ""},
		"back to the usual one, once":  {[]taken{{0, "b"}, {time.Hour, "b"}, {time.Hour, "a"}}, ""},
		"back to the usual one, twice": {[]taken{{0, "b"}, {time.Hour, "b"}, {time.Hour, "a"}, {time.Hour, "a"}}, "a"},
	} {
		for _, inbox := range []string{"shared", "own"} {
			s, now := fresh(), t0
			for _, k := range c.took {
				now = now.Add(k.after)
				refused := s.FormOf(inbox, now)
				if refused == "" {
					refused = "usual"
				}
				s = took(s, inbox, refused, k.form, false, now)
			}
			host := map[string]string{"shared": c.want}[inbox]
			if got := s.FormOf(inbox, now); got != c.want || s.FormAt(now) != host {
				t.Errorf("%s: the inbox %q is believed to take %q and its host %q, want %q and %q", name, inbox, got, s.FormAt(now), c.want, host)
			}
			if !s.Forget.After(now) || c.want != "" && s.Forget.Before(now.Add(week)) {
				t.Errorf("%s, %s: the record is kept until %s", name, inbox, s.Forget)
			}
			if got := s.FormOf(inbox, now.Add(week)); got != "" {
				t.Errorf("%s: after a week the inbox %q is still believed to take %q", name, inbox, got)
			}
		}
	}
}

// TestAnInboxTeachesItsHostOnlyWhatItHadNotTakenBefore: the shared inbox, too, and nobody else.
func TestAnInboxTeachesItsHostOnlyWhatItHadNotTakenBefore(t *testing.T) {
	later := t0.Add(2 * time.Minute)
	for name, c := range map[string]struct {
		first, second string
		before        bool
		want          string
	}{
		"the shared inbox":                      {"shared", "shared", false, "b"},
		"one that had accepted the other form":  {"x", "x", true, "b"},
		"one that had not":                      {"x", "x", false, ""},
		"that one, and the shared inbox":        {"x", "shared", true, "b"},
		"another one, after the shared inbox":   {"shared", "x", true, ""},
		"two that had accepted it, once each":   {"x", "y", true, ""},
		"the shared inbox after any other one":  {"y", "shared", false, ""},
		"any other one, after the shared inbox": {"shared", "y", false, ""},
	} {
		s := took(fresh(), c.first, "a", "b", c.before, t0)
		s = took(s, "obstinate", "a", "c", true, t0.Add(time.Minute)) // does not begin anew
		s = took(s, c.second, "a", "b", c.before && c.second == "y", later)
		if got := s.FormOf("another", later); got != c.want {
			t.Errorf("%s: other inboxes of the host are believed to take %q, want %q", name, got, c.want)
		}
	}
}

// TestAFormOfAHostIsUnlearntByTheFirstInboxThatRefusesIt and takes another: then no inbox can teach
// the host again, also if a stranger calls it shared, and whoever was asked in the wrong form twice is asked so no more.
func TestAFormOfAHostIsUnlearntByTheFirstInboxThatRefusesIt(t *testing.T) {
	now := t0
	teach := func(s State, inbox string) State {
		for range 2 {
			now = now.Add(time.Minute)
			s = took(s, inbox, "a", "b", true, now)
		}
		return s
	}
	s := teach(fresh(), "stranger")
	if s.FormAt(now) != "b" {
		t.Fatal("the host has learnt nothing")
	}
	s = took(s, "victim", "b", "a", false, now)
	if s.FormAt(now) != "" || s.FormOf("stranger", now) != "b" || s.FormOf("victim", now) != "" {
		t.Errorf("the host is believed to take %q, the stranger %q, the victim %q", s.FormAt(now), s.FormOf("stranger", now), s.FormOf("victim", now))
	}
	if s = teach(s, "other stranger"); s.FormAt(now) != "" || s.FormOf("other stranger", now) != "b" {
		t.Errorf("a form that is disputed was learnt from another inbox: %q", s.FormAt(now))
	}
	if s = teach(s, "shared"); s.FormAt(now) != "" || s.FormOf("shared", now) != "b" {
		t.Errorf("the host is believed to take %q and the shared inbox %q, want nothing and b", s.FormAt(now), s.FormOf("shared", now))
	}
	if now = now.Add(week); s.FormOf("victim", now) != "" {
		t.Error("a form is believed for ever")
	}
	if s = teach(s, "stranger"); s.FormAt(now) != "b" {
		t.Error("after its time a form is still disputed")
	}
}

// TestFormsOf32InboxesOfAHostAreRemembered: strangers name inboxes.
func TestFormsOf32InboxesOfAHostAreRemembered(t *testing.T) {
	s, now := fresh(), t0
	add := func(inbox string) {
		s = took(s, inbox, "a", "b", false, now)
		s = took(s, inbox, "a", "b", false, now.Add(time.Minute))
	}
	for i := range 100 {
		add(fmt.Sprint(i))
	}
	add("shared")
	known := func() (n int) {
		s := s
		s.Form = ""
		for i := range 100 {
			if s.FormOf(fmt.Sprint(i), now) != "" {
				n++
			}
		}
		return n
	}
	if n, size := known(), len(s.Forms); n != 32 || s.FormOf("31", now) != "b" || size > 2048 {
		t.Errorf("the forms of %d inboxes are remembered, in %d bytes; want the first 32, in 2 KiB", n, size)
	}
	if s.FormAt(now) != "b" {
		t.Error("the shared inbox has no place beside them")
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	read := State{Key: s.Key, Forget: s.Forget}
	if err := json.Unmarshal(b, &read); err != nil || read.Forms != s.Forms || read.FormOf("3", now) != "b" {
		t.Errorf("stored and read, it is %+v, %v", read, err)
	}
	if again := took(s, "99", "a", "b", false, now); again != s {
		t.Error("an inbox that is not remembered costs a write")
	}
	if now = now.Add(week + time.Minute); known() != 0 {
		t.Error("they are remembered for ever")
	}
	if add("99"); known() != 1 || len(s.Forms) > 64 {
		t.Errorf("%d are remembered after a week, in %d bytes", known(), len(s.Forms))
	}
}

// TestFormsThatEarlierBuildsStoredAreRead.
func TestFormsThatEarlierBuildsStoredAreRead(t *testing.T) {
	at := t0.Add(-time.Hour).Format(time.RFC3339)
	s := fresh()
	if err := json.Unmarshal([]byte(`{"phase":"healthy","form":"b","formUntil":"`+t0.Add(time.Hour).Format(time.RFC3339)+`"}`), &s); err != nil || s.FormOf("x", t0) != "b" {
		t.Errorf("%+v, %v", s, err)
	}
	s = fresh()
	if err := json.Unmarshal([]byte(`{"phase":"healthy","maybeForm":"b","maybeFormAt":"`+at+`"}`), &s); err != nil {
		t.Fatal(err)
	}
	if x := took(s, "x", "a", "b", true, t0); x.FormAt(t0) != "" {
		t.Error("any inbox confirms what an unknown one began")
	}
	if s = took(s, "shared", "a", "b", false, t0); s.FormAt(t0) != "b" {
		t.Errorf("the shared inbox does not: %+v", s)
	}
}
