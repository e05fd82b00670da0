package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/long"
)

// scenario is a promise to users that holds on every engine.
type scenario struct {
	name    string
	options Options
	run     func(t *testing.T, w *World)
	// queues: the type of the queues may change what happens. The others run with FIFO
	// queues only where long tests do.
	queues bool
}

// scenarios run side by side.
var scenarios = []scenario{
	{"FourServersOfEveryDay", Options{Settings: map[string]string{"DELIVERY_TIMEOUT": "2s", "RETRY_TRIES": "3"}}, fourServers, false},
	{"BodiesArriveByteForByte", Options{}, byteExact, false},
	{"KeysOfEveryKindSign", Options{}, kindsOfKeys, false},
	{"ASharedInboxGetsOneCopy", Options{}, sharedInbox, false},
	{"AThousandRecipientsOnAFewServers", Options{}, fanOut, false},
	{"AKeyIsAcceptedOnce", Options{}, deduplication, true},
	{"CreateUpdateDeleteArriveInOrder", Options{}, order, true},
	{"OrderHoldsThroughAnOutage", Options{}, orderThroughOutage, true},
	{"ADelayedActivityWaits", Options{}, delay, true},
	{"AHostThatComesBackGetsEverything", Options{}, outage, true},
	{"ASharedInboxThatIsGoneEndsItsServer", Options{}, goneServer, false},
	{"AThrottlingHostIsLeftAloneForAsLongAsItAsks", Options{}, throttled, true},
	{"WhatIsCancelledIsNotSent", Options{}, cancel, true},
	{"ABatchIsOneCall", patient, batch, false},
	{"MetadataComesBack", Options{}, metadata, false},
	{"InboxesComeBackAsTheyWereWritten", Options{}, spellings, false},
	{"BadRequestsStoreNothing", Options{}, badRequests, false},
}

// TestMain lets more scenarios run side by side than there are processors: they
// wait for timers more than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestScenariosOnTheEmbeddedEngine(t *testing.T) { runScenarios(t, Embedded()) }

func TestScenariosOnPostgreSQL(t *testing.T) { runScenarios(t, Postgres()) }

func TestScenariosOnTheAWSEngine(t *testing.T) { runScenarios(t, AWS()) }

// runScenarios runs each scenario with queues of both types.
func runScenarios(t *testing.T, e Engine) {
	e.Require(t)
	t.Parallel()
	for _, typ := range []queue.Type{queue.Standard, queue.FIFO} {
		for _, s := range scenarios {
			s.options.QueueType = typ
			t.Run(string(typ)+"/"+s.name, func(t *testing.T) {
				if typ == queue.FIFO && !s.queues {
					long.Only(t, "shows the same with standard queues")
				}
				t.Parallel()
				s.run(t, Open(t, e, s.options))
			})
		}
	}
}

// note is a Create of a small Note with an id of its own.
func note(name string) string {
	return fmt.Sprintf(`{"@context":"https://www.w3.org/ns/activitystreams","id":%q,"type":"Create",`+
		`"actor":"https://mastodon.example/users/Zoe","object":{"type":"Note","id":%q,"content":"<p>%s &amp; more, übrigens</p>"}}`,
		noteID(name), noteID(name)+"/note", name)
}

func noteID(name string) string { return "https://mastodon.example/activities/" + name }

// recipient returns the entry of an inbox in a status.
func recipient(t *testing.T, s client.Status, inbox string) client.RecipientStatus {
	t.Helper()
	for _, r := range s.Recipients {
		if r.Inbox == inbox {
			return r
		}
	}
	t.Fatalf("%s is not among the recipients of %s", inbox, s.ID)
	return client.RecipientStatus{}
}

// accepted checks that a server took each activity exactly once, and nothing
// whose signature it could not verify.
func accepted(t *testing.T, r *Remote, ids ...string) {
	t.Helper()
	got := map[string]int{}
	for _, p := range r.Posts() {
		if p.Refused != nil {
			t.Errorf("%s refused a POST of %s: %v", r.Host, p.ActivityID, p.Refused)
		}
	}
	for _, p := range r.Accepted() {
		got[p.ActivityID]++
	}
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("%s accepted %s %d times, want once", r.Host, id, got[id])
		}
		delete(got, id)
	}
	if len(got) > 0 {
		t.Errorf("%s accepted what nobody sent there: %v", r.Host, got)
	}
}
