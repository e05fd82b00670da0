package deliver_test

import (
	"net/http"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/protocol/activitypub"
	"fedpost/internal/protocol/httpsign"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/testkit/fediverse"
	"fedpost/internal/testkit/world"
)

// signed is a world in which all inboxes of one host verify signatures.
type signed struct {
	*world.World
	protocol *activitypub.Protocol
	inboxes  map[string]*fediverse.Inbox // by path
}

const sharedPath = "/inbox"

func newSigned(t *testing.T, paths ...string) signed {
	t.Helper()
	network := fediverse.NewNetwork()
	client, err := outbound.New(outbound.Config{UserAgent: "fedpost/test", Transport: network})
	if err != nil {
		t.Fatal(err)
	}
	p := &activitypub.Protocol{Keys: fediverse.NewKeys(), Client: client}
	w := signed{world.New(t, world.Options{Protocol: p}), p, map[string]*fediverse.Inbox{}}
	p.Forms, p.Now, p.Date = w.Deliver.Hosts, w.Now, w.Now
	mux := http.NewServeMux()
	for _, path := range paths {
		w.inboxes[path] = fediverse.NewInbox(fediverse.NewKeys().Public()).Clock(w.Now)
		mux.Handle(path, w.inboxes[path])
	}
	network.Add("many.example", mux)
	return w
}

// sends sends an activity to inboxes, which are delivered to in one attempt, and returns how many
// requests that took.
func (w signed) sends(paths ...string) (requests int) {
	w.T.Helper()
	for _, path := range paths {
		a, to := w.Activity("Create"), "https://many.example"+path
		a.KeyID = fediverse.RSAKeyID
		before := len(w.inboxes[path].Posts())
		if path == sharedPath {
			w.protocol.Prepare(w.T.Context(), a)(w.T.Context(), activity.Target{Inbox: to, Stands: 2, Shared: true}, 1)
		} else {
			w.Send(a, to)
			w.Work()
			if r := w.States(a.ID)[to]; r.State != activity.Delivered || r.Attempts != 1 {
				w.T.Errorf("%s: %s", path, world.Brief(r))
			}
		}
		posts := w.inboxes[path].Posts()
		if posts[len(posts)-1].Status != http.StatusAccepted {
			w.T.Errorf("%s: %+v", path, posts[len(posts)-1])
		}
		requests += len(posts) - before
	}
	return requests
}

// twice is sends, two times a minute apart.
func (w signed) twice(path string) {
	w.T.Helper()
	w.sends(path)
	w.Clock.Advance(time.Minute)
	w.sends(path)
}

func TestAnInboxThatWantsAnotherSignatureFormChangesNothingForOthersOfItsHost(t *testing.T) {
	w := newSigned(t, "/odd", "/a", "/b")
	w.inboxes["/odd"].Takes(httpsign.RFC9421)
	w.inboxes["/a"].Takes(httpsign.Cavage)
	w.twice("/odd")
	if n := w.sends("/odd"); n != 1 {
		t.Errorf("%d requests to the inbox whose form is known, want 1", n)
	}
	if n := w.sends("/a", "/b"); n != 2 || w.inboxes["/b"].Posts()[0].Form != httpsign.Cavage {
		t.Errorf("%d requests to two others, the last in form %s; want 2, in draft-cavage", n, w.inboxes["/b"].Posts()[0].Form)
	}
	w.inboxes["/odd"].Takes(httpsign.Cavage)
	if first, then := w.sends("/odd"), w.sends("/odd"); first != 2 || then != 1 {
		t.Errorf("when it wants draft-cavage again, %d requests and then %d, want 2 and then 1", first, then)
	}
}

func TestASharedInboxTeachesItsHostASignatureForm(t *testing.T) {
	w := newSigned(t, sharedPath, "/a", "/b")
	for _, in := range w.inboxes {
		in.Takes(httpsign.RFC9421)
	}
	w.twice(sharedPath)
	if n := w.sends("/a", "/b", sharedPath); n != 3 {
		t.Errorf("%d requests for three deliveries, want 3", n)
	}
}

func TestAnInboxThatHadTakenTheOtherSignatureFormTeachesItsHost(t *testing.T) {
	w := newSigned(t, "/a", "/b", "/c")
	w.sends("/b", "/a")
	for _, in := range w.inboxes {
		in.Takes(httpsign.RFC9421)
	}
	w.sends("/b") // its acceptance was not the last
	w.twice("/a")
	if n := w.sends("/b", "/c"); n != 2 {
		t.Errorf("%d requests for two deliveries, want 2", n)
	}
}

// TestAStrangerWhoTeachesTheWholeHostASignatureFormCostsOneRequest: a program of his own takes
// draft-cavage first, and then only RFC 9421, which no other inbox of the host takes.
func TestAStrangerWhoTeachesTheWholeHostASignatureFormCostsOneRequest(t *testing.T) {
	honest := []string{"/a", "/b", "/c", sharedPath}
	w := newSigned(t, append(honest, "/stranger")...)
	for _, path := range honest {
		w.inboxes[path].Takes(httpsign.Cavage)
	}
	w.sends("/stranger")
	w.inboxes["/stranger"].Takes(httpsign.RFC9421)
	w.twice("/stranger")
	if n := w.sends(honest...); n != len(honest)+1 {
		t.Errorf("%d requests for %d deliveries, want one more", n, len(honest))
	}
	for _, now := range []httpsign.Form{httpsign.Cavage, httpsign.RFC9421} {
		w.inboxes["/stranger"].Takes(now)
		w.twice("/stranger")
		if n := w.sends(honest...); n != len(honest) {
			t.Errorf("when the stranger takes %s again, %d requests for %d deliveries, want one each", now, n, len(honest))
		}
	}
}

// Actors name their shared inbox themselves, so a stranger may name his inbox at a host as that of
// two accounts. It teaches the host nothing where others were seen to take the form that it refuses;
// where it does, the first that refuses the form ends that for a week.
func TestAStrangerWhoCallsHisInboxTheSharedOneCostsOneRequest(t *testing.T) {
	honest := []string{"/a", "/b", "/c", sharedPath}
	for name, seen := range map[string]bool{"others were seen": true, "nobody was seen": false} {
		t.Run(name, func(t *testing.T) {
			w := newSigned(t, append(honest, "/stranger")...)
			for _, path := range honest {
				w.inboxes[path].Takes(httpsign.Cavage)
			}
			w.inboxes["/stranger"].Takes(httpsign.RFC9421)
			want, got := 5*len(honest)+1, 0
			if seen {
				w.sends(honest...)
				want--
			}
			for range 5 {
				for range 2 {
					w.claims("/stranger")
					w.Clock.Advance(time.Minute)
				}
				got += w.sends(honest...)
			}
			if got > want {
				t.Errorf("%d requests for %d deliveries to others, at most %d", got, 5*len(honest), want)
			}
		})
	}
}

// claims sends to an inbox that actors call their shared one.
func (w signed) claims(path string) {
	a := w.Activity("Create")
	a.KeyID = fediverse.RSAKeyID
	w.protocol.Prepare(w.T.Context(), a)(w.T.Context(), activity.Target{Inbox: "https://many.example" + path, Stands: 2, Shared: true}, 1)
}
