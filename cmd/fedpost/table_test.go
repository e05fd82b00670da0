package main

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
)

// TestColumnsAreAlignedWhereTheLastCellsAreEmpty: the columns above and below a row with
// empty last cells stay aligned.
func TestColumnsAreAlignedWhereTheLastCellsAreEmpty(t *testing.T) {
	var out strings.Builder
	err := table(&out, []string{"STATE", "INBOX", "ERROR"}, [][]string{
		{"delivered", "https://a.example/users/mo/inbox", ""},
		{"failed", "https://b.example/", "answered 410 Gone"},
	})
	want := "" +
		"STATE      INBOX                             ERROR\n" +
		"delivered  https://a.example/users/mo/inbox\n" +
		"failed     https://b.example/                answered 410 Gone\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, &out, want)
	}
}

var wide = [][]string{
	{"2026-11-21 08:00:00Z", "https://a.example/users/somebody-with-a-long-name/inbox", "Create", "", "exhausted", "answered 500 Internal Server Error"},
	{"2026-11-21 09:00:00Z", "https://b.example/inbox", "Like", "", "exhausted", ""},
}

// TestATableFitsTheTerminalAndLosesNothing: what is too wide stands below its row.
func TestATableFitsTheTerminalAndLosesNothing(t *testing.T) {
	header := []string{"DIED", "INBOX", "WHAT", "HOST", "STATE", "ERROR"}
	var out strings.Builder
	if err := table(screen{w: &out, width: 80}, header, wide); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"DIED                  WHAT    STATE      ERROR\n" +
		"2026-11-21 08:00:00Z  Create  exhausted  answered 500 Internal Server Error\n" +
		"  inbox  https://a.example/users/somebody-with-a-long-name/inbox\n" +
		"2026-11-21 09:00:00Z  Like    exhausted\n" +
		"  inbox  https://b.example/inbox\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// TestLongCellsAndFactsEndLinesBetweenWords.
func TestLongCellsAndFactsEndLinesBetweenWords(t *testing.T) {
	const why = "dial tcp: lookup nowhere.example on 192.0.2.53:53: no such host"
	var out strings.Builder
	s := screen{w: &out, width: 50}
	if err := errors.Join(table(s, []string{"SERVER", "WHY"}, [][]string{{"nowhere.example", why}}), facts(s, "server", "nowhere.example", "last fault", why)); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"SERVER\n" +
		"nowhere.example\n" +
		"  why  dial tcp: lookup nowhere.example on\n" +
		"       192.0.2.53:53: no such host\n" +
		"server      nowhere.example\n" +
		"last fault  dial tcp: lookup nowhere.example on\n" +
		"            192.0.2.53:53: no such host\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

// TestInboxesAndKeysAreListedByTheirNames, not by those of their records.
func TestInboxesAndKeysAreListedByTheirNames(t *testing.T) {
	const key = "https://social.example/users/otto#main-key"
	all := []client.Server{
		{Name: "a.example", Phase: client.PhaseHealthy},
		{Name: "inbox:https://a.example/1#key-2cfb9aac07ff", Host: "a.example", KeyID: key, Phase: client.PhaseUnhealthy},
		{Name: "inbox:https://a.example/#hostkey-2cfb9aac07ff", Host: "a.example", KeyID: key, Phase: client.PhaseUnhealthy},
		{Name: "inbox:https://a.example/2", Host: "a.example", Phase: client.PhasePaused},
	}
	var out strings.Builder
	if err := showServers(&out, all, time.Now()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"SERVER PHASE SINCE NEXT STEP WAITING CHECKS RATE INBOX SIGNING KEY LAST FAULT",
		"a.example healthy", "an inbox of it unhealthy https://a.example/1 " + key,
		"all its inboxes unhealthy " + key, "an inbox of it paused https://a.example/2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestNoTableIsWiderThanItsTerminal, whatever the terminal's width is; a single cell may be.
func TestNoTableIsWiderThanItsTerminal(t *testing.T) {
	header := []string{"DIED", "INBOX", "WHAT", "HOST", "STATE", "ERROR"}
	for width := 66; width < 200; width++ {
		var out strings.Builder
		if err := table(screen{w: &out, width: width}, header, wide); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
		for _, row := range wide {
			for _, cell := range row {
				if !strings.Contains(out.String(), cell) {
					t.Errorf("at %d columns %q is missing", width, cell)
				}
			}
		}
	}
}

// TestAPipeGetsOneLineARow, with all columns: other programs read it.
func TestAPipeGetsOneLineARow(t *testing.T) {
	var out strings.Builder
	if err := table(screen{w: &out}, []string{"DIED", "INBOX", "WHAT", "HOST", "STATE", "ERROR"}, wide); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 4 || !strings.Contains(lines[1], "name/inbox  Create        exhausted  answered") {
		t.Errorf("printed\n%s", &out)
	}
}

// TestStatesHaveColoursWhereATerminalHasThem, and colours move no column.
func TestStatesHaveColoursWhereATerminalHasThem(t *testing.T) {
	rows := [][]string{{"a.example", "blocked", "spam"}, {"blocked", "healthy", "\x1b[31mevil"}}
	shown := func(s screen) string {
		var out strings.Builder
		s.w = &out
		if err := table(s, []string{"SERVER", "PHASE", "WHY"}, rows); err != nil {
			t.Fatal(err)
		}
		if err := facts(s, "server", "a.example", "phase", "gone"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	coloured := shown(screen{colour: true})
	for _, want := range []string{"\x1b[31mblocked\x1b[0m  spam", "\nblocked    \x1b[32mhealthy\x1b[0m   [31mevil\n", "\x1b[1mPHASE\x1b[0m", "phase   \x1b[31mgone\x1b[0m\n"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("%q lacks %q", coloured, want)
		}
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(coloured, ""); got != shown(screen{}) {
		t.Errorf("without colours\n%s\nwith, taken out\n%s", shown(screen{}), got)
	}
}

// TestWhatIsNoTerminalGetsNoColours, and neither does one with NO_COLOR.
func TestWhatIsNoTerminalGetsNoColours(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if s := screenOn(f); s.colour || s.width != 0 {
		t.Errorf("a file is a screen %+v, want no colour and no width", s)
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudoterminal:", err)
	}
	defer terminal.Close()
	for _, c := range []struct {
		name, value string
		colour      bool
	}{{"NO_COLOR", "", true}, {"NO_COLOR", "1", false}, {"TERM", "dumb", false}} {
		t.Run(c.name+c.value, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			t.Setenv(c.name, c.value)
			if s := screenOn(terminal); s.colour != c.colour {
				t.Errorf("with %s=%q a terminal is a screen %+v, want colour: %t", c.name, c.value, s, c.colour)
			}
		})
	}
}
