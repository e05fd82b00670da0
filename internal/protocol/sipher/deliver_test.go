package sipher_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/sipherpeer"
)

func TestPayloadArrivesByteForByteSealedAndSigned(t *testing.T) {
	for _, a := range []activity.Activity{followJob(), postJob()} {
		b := newBed(t)
		b.acquainted(b.b)
		if o := b.attempt(a, 1); o.Class != outcome.Delivered || o.Status != 200 {
			t.Fatalf("the outcome is %+v, want delivered with 200", o)
		}
		got := b.b.Deliveries()
		if len(got) != 1 || got[0].Plaintext != a.Body || !got[0].Signed || len(got[0].Faults) > 0 {
			t.Errorf("B got the deliveries %+v, want one of %s, signed and without faults", got, a.Body)
		}
		if strings.Contains(got[0].Body, "alice") {
			t.Error("the payload is readable on the wire")
		}
	}
}

func TestDeliveryRequestHasTheFourHeadersAndNoCookie(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	delivered.check(t, b.attempt(postJob(), 1))
	h := b.b.Deliveries()[0].Header
	for name, v := range map[string]string{
		"Content-Type": "application/json", "Origin": ourURL, "X-Federation-Origin": ourURL,
		"X-Federation-Target": urlB + sipherpeer.PostsPath,
	} {
		if got := h.Values(name); !slices.Equal(got, []string{v}) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, ok := h["Cookie"]; ok {
		t.Error("there is a cookie")
	}
	known := []string{"Accept-Encoding", "Content-Length", "Content-Type", "Origin", "User-Agent", "X-Federation-Origin", "X-Federation-Target"}
	for name := range maps.Keys(h) {
		if !slices.Contains(known, name) {
			t.Errorf("header %s: %q", name, h[name])
		}
	}
}

func TestMethodOfTheRequestIsCopiedFromThePayload(t *testing.T) {
	for _, m := range []string{"FEDERATE", "FEDERATE_POST", "INSERT", "UNFOLLOW"} {
		b := newBed(t)
		b.acquainted(b.b)
		a := job("deliver-other", `{"method":"`+m+`"}`)
		b.proto.Attempt(t.Context(), a, activity.Target{Inbox: urlB + sipherpeer.PostsPath}, 1)
		if got := b.b.Deliveries(); len(got) != 1 || !strings.HasPrefix(got[0].Body, `{"method":"`+m+`","payload":{"ephemeralPublicKey":"`) {
			t.Errorf("%s: %v", m, got)
		}
	}
}

func TestTwoEnvelopesOfOnePayloadDiffer(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.attempt(postJob(), 1)
	b.attempt(postJob(), 2)
	got := b.b.Deliveries()
	if len(got) != 2 || got[0].Body == got[1].Body || got[0].Plaintext != got[1].Plaintext {
		t.Error("an ephemeral key was used twice")
	}
}

func TestFollowAckEffects(t *testing.T) {
	for given, c := range map[string]struct {
		note                   string
		accepted, acknowledged bool
	}{
		"true":   {"follow accepted", true, false},
		"false":  {"follow acknowledged", false, true},
		"null":   {"follow acknowledged", false, true},
		"absent": {"follow acknowledged", false, true},
	} {
		for _, form := range []sipherpeer.Form{sipherpeer.Wrapped, sipherpeer.Inline} {
			t.Run(given+" "+string(form), func(t *testing.T) {
				b := newBed(t)
				b.acquainted(b.b)
				b.b.Behave(sipherpeer.Behavior{Accepted: given, Form: form})
				want{class: outcome.Delivered, discard: true, note: c.note}.check(t, b.attempt(followJob(), 1))
				got := b.follows()
				if len(got) != 1 || got[0].Accepted != c.accepted || got[0].Acknowledged != c.acknowledged {
					t.Errorf("the follows are %+v, want one, accepted %t and acknowledged %t", got, c.accepted, c.acknowledged)
				}
			})
		}
	}
}

func TestAckWithEpochMillisecondsIsTaken(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{CreatedAt: "1778077061000"})
	accepted.check(t, b.attempt(followJob(), 1))
}

func TestAckOfAnotherFollowChangesNothing(t *testing.T) {
	// carol's follow is on record too, so only the job's own ids keep B from
	// accepting it by answering to alice's.
	other := strings.NewReplacer("alice", "carol", `"f1"`, `"f2"`).Replace(followPayload)
	for name, behavior := range map[string]sipherpeer.Behavior{
		"another follower":  {FollowerID: "carol"},
		"another following": {FollowingID: "dave"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.acquainted(b.b)
			if err := b.proto.Record(t.Context(), job("deliver-follow", other), activity.Target{}); err != nil {
				t.Fatal(err)
			}
			b.b.Behave(behavior)
			want{class: outcome.Delivered, discard: true, note: "names another follow"}.check(t, b.attempt(followJob(), 1))
			if got := b.follows(); len(got) != 2 {
				t.Errorf("the follows are %+v, want two", got)
			}
			untouched(t, b)
		})
	}
}

func TestAckWithoutLocalFollowIsIgnoredAndTheJobSucceeds(t *testing.T) {
	none := want{class: outcome.Delivered, discard: true, note: "no local follow"}
	t.Run("not recorded", func(t *testing.T) {
		b := newBed(t)
		b.acquainted(b.b)
		none.check(t, b.proto.Attempt(t.Context(), followJob(), target(followJob()), 1))
	})
	t.Run("recorded for another server", func(t *testing.T) {
		b := newBed(t)
		b.acquainted(b.b)
		a := job("deliver-follow", strings.Replace(followPayload, `"followerServerUrl":"https://b.example"`, `"followerServerUrl":"https://c.example"`, 1))
		none.check(t, b.attempt(a, 1))
		untouched(t, b)
	})
	t.Run("payload without follow", func(t *testing.T) {
		b := newBed(t)
		b.acquainted(b.b)
		none.check(t, b.attempt(job("deliver-follow", `{"method":"FEDERATE"}`), 1))
		if got := b.follows(); len(got) != 0 {
			t.Errorf("the follows are %+v, want none", got)
		}
	})
}

func TestLocalFollowIsRecordedWhenTheJobIsEnqueued(t *testing.T) {
	b := newBed(t)
	for _, a := range []activity.Activity{
		followJob(), postJob(), job("deliver-other", followPayload), job("deliver-follow", "not JSON"),
		{ID: "x", Protocol: activity.ActivityPub, Options: activity.Options{Job: "deliver-follow"}, Body: strings.Replace(followPayload, "alice", "zoe", 1)},
	} {
		if err := b.proto.Record(t.Context(), a, activity.Target{}); err != nil {
			t.Fatal(err)
		}
	}
	now := b.Now()
	wanted := []follow.Follow{{
		ID: "f1", FollowerID: "alice", FollowingID: "bob", FollowerServerURL: urlB,
		CreatedAt: "2026-05-06T14:17:40.000Z", RecordedAt: now, UpdatedAt: now,
	}}
	if d := cmp.Diff(wanted, b.follows()); d != "" {
		t.Error(d)
	}
}

func TestOutcomesNameTheMethodForTheLog(t *testing.T) {
	b := newBed(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{Status: 503})
	for payload, method := range map[string]string{followPayload: "FEDERATE", postPayload: "FEDERATE_POST", "{}": ""} {
		if o := b.attempt(job("deliver-any", payload), 1); o.Method != method || o.Err == "" {
			t.Errorf("the outcome is %+v, want the method %q and an error", o, method)
		}
	}
}

func TestNeitherPayloadNorKeysAreLogged(t *testing.T) {
	b := newBed(t)
	b.b.Behave(sipherpeer.Behavior{Status: 500}, sipherpeer.Behavior{BadSignature: true}, sipherpeer.Behavior{Garbage: true}, sipherpeer.Behavior{})
	for n := 1; n <= 4; n++ {
		b.attempt(strangerFollow(n), n)
	}
	log := b.log.String()
	for name, secret := range b.a.Settings() {
		if strings.Contains(name, "PRIVATE") && strings.Contains(log, secret) {
			t.Errorf("%s is in the log", name)
		}
	}
	if strings.Contains(log, "someone") || log == "" {
		t.Errorf("the payload is in the log:\n%s", log)
	}
}

func strangerFollow(n int) activity.Activity {
	return job("deliver-follow", strings.Replace(followPayload, "alice", "someone"+strings.Repeat("x", n), 1))
}

func TestFirstDeliveryToAStrangerKeepsItsRecord(t *testing.T) {
	b := newBed(t)
	b.b.Know(ourURL, b.a.PublicKey(), b.a.EncryptionKey())
	b.insert(b.b, func(s *peers.Server) { s.Stranger = true })
	delivered.check(t, b.attempt(postJob(), 1))
	if b.server(urlB).Stranger {
		t.Error("still a stranger")
	}
}
