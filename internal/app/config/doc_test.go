package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/configuration.md")

const (
	document = "../../../docs/configuration.md"
	begin    = "<!-- settings: written by go test ./internal/app/config -update -->\n"
	end      = "<!-- end of settings -->\n"
)

var programs = []struct {
	name string
	cfg  any
}{
	{"enqueue", &Enqueue{}}, {"deliver", &Deliver{}}, {"health check", &HealthCheck{}}, {"`up`", &Local{}},
}

// titles of the concerns, in the document's order.
var titles = []struct{ concern, title string }{
	{"Queueing", "Type of the queues"},
	{"Database", "PostgreSQL"},
	{"Queues", "Queues"},
	{"Table", "Table"},
	{"Sealing", "Signing keys"},
	{"Access", "Access to the API"},
	{"Signing", "Signing"},
	{"Deduplication", "Deduplication"},
	{"Limits", "Limits"},
	{"Events", "Events"},
	{"EventBus", "Events on EventBridge, on AWS"},
	{"Priorities", "Priorities"},
	{"Retry", "Retries"},
	{"Circuit", "Servers that are down"},
	{"Outbound", "Requests to other servers"},
	{"Concurrency", "Concurrency"},
	{"Metrics", "Metrics"},
	{"Tracing", "Traces"},
	{"TracingHeaders", "Traces: headers for the collector"},
	{"Log", "Log lines of the functions"},
	{"SipherIdentity", "Sipher: your server"},
	{"SipherSecrets", "Sipher: private keys"},
	{"SipherSecret", "Sipher: keys in a secret, on AWS"},
	{"Sipher", "Sipher"},
}

// tables renders all settings of all programs. A program reads a concern as a whole.
func tables() string {
	readers := map[string][]string{}
	byConcern := map[string][]Setting{}
	for _, p := range programs {
		settings := map[string][]Setting{}
		for _, s := range Settings(p.cfg) {
			settings[s.Concern] = append(settings[s.Concern], s)
		}
		for concern, list := range settings {
			readers[concern] = append(readers[concern], p.name)
			byConcern[concern] = list
		}
	}
	var b strings.Builder
	for _, t := range titles {
		by := strings.Join(readers[t.concern], ", ")
		if len(readers[t.concern]) == len(programs) {
			by = "all"
		}
		fmt.Fprintf(&b, "\n## %s\n\nRead by %s.\n\n| variable | default | set it to |\n|---|---|---|\n", t.title, by)
		for _, s := range byConcern[t.concern] {
			shown := "`" + s.Default + "`"
			switch {
			case s.Required:
				shown = "**must be set**"
			case s.Default == "":
				shown = "–"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, shown, s.Help)
		}
		delete(byConcern, t.concern)
	}
	for concern := range byConcern {
		panic("the document has no title for " + concern)
	}
	return b.String() + "\n"
}

func TestTheDocumentListsExactlyTheSettings(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	got, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s has lost its marks", document)
	}
	want := tables()
	if *update {
		whole := string(before) + begin + want + end + string(after)
		if err := os.WriteFile(document, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(got) != want {
		t.Errorf("%s does not agree with the code; run: go test ./internal/app/config -update", document)
	}
}

func TestASettingMeansTheSameInEveryProgram(t *testing.T) {
	first := map[string]Setting{}
	for _, p := range programs {
		for _, s := range Settings(p.cfg) {
			if f, ok := first[s.Name]; ok && f != s {
				t.Errorf("%s is declared twice: %+v and %+v", s.Name, f, s)
			}
			first[s.Name] = s
		}
	}
}
