package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"fedpost/client"
	"fedpost/internal/engine/queue"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/testkit/sipherpeer"
)

// sipherIdentity is the configuration of a server in a Sipher network. The time-out for ActivityPub
// is set so that an invocation has room for the longest Sipher attempt.
func sipherIdentity(t testing.TB) (Options, *sipherpeer.Peer) {
	us := sipherpeer.New(t, "https://social.example")
	settings := map[string]string{"DELIVERY_TIMEOUT": "30s"}
	maps.Copy(settings, us.Settings())
	return Options{Settings: settings}, us
}

// sipher discovers a server, announces a follow to it and sends it posts: one is refused at first,
// and the answer to one is no acknowledgement.
func sipher(t *testing.T, e Engine, typ queue.Type) {
	e.Require(t)
	t.Parallel()
	options, us := sipherIdentity(t)
	options.QueueType = typ
	w := Open(t, e, options)
	peer := sipherpeer.Start(t, "")
	submit := func(job, path, payload string) string {
		t.Helper()
		a, err := w.Client.Send(t.Context(), client.Submission{
			Protocol: "sipher", Job: job, ServerURL: peer.URL, Recipients: client.To(peer.URL + path), Payload: payload,
		})
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	payload := `{"following":{"id":"f1","followerId":"alice","followingId":"bob","accepted":false,"createdAt":"2026-05-06T14:17:40.000Z",` +
		`"followerServerUrl":"` + peer.URL + `","followingServerUrl":null,"acknowledged":false}, "federationUrl":"https://social.example","method":"FEDERATE"}`
	id := submit("deliver-follow", sipherpeer.FollowsPath, payload)
	w.Ends(id, map[string]int{"delivered": 1})
	if got := peer.Sequence(); !slices.Equal(got, []string{"GET /discover", "POST /discover", "POST " + sipherpeer.FollowsPath}) {
		t.Errorf("the peer saw %v", got)
	}
	if got := peer.Deliveries(); len(got) != 1 || got[0].Plaintext != payload || !got[0].Signed || len(got[0].Faults) > 0 {
		t.Errorf("the peer got %+v", got)
	}
	if public, _, ok := peer.Knows("https://social.example"); !ok || public != us.PublicKey() {
		t.Error("the peer does not know us")
	}
	var page struct{ Follows []follow.Follow }
	if err := w.Do(t.Context(), http.MethodGet, "/v1/follows", nil, &page); err != nil || len(page.Follows) != 1 || !page.Follows[0].Accepted {
		t.Errorf("follows %+v, %v", page, err)
	}

	peer.Behave(sipherpeer.Behavior{Status: 503}, sipherpeer.Behavior{}, sipherpeer.Behavior{Form: sipherpeer.Legacy})
	post := `{"method":"FEDERATE_POST","federationUrl":"https://social.example","post":{"id":"p1","content":[{"type":"text","value":"<b>café</b> & \u2615"}],` +
		`"authorId":"alice","published":"2026-05-06T14:17:40.000Z","isPrivate":false}}`
	id = submit("deliver-post", sipherpeer.PostsPath, post)
	if s := w.Ends(id, map[string]int{"delivered": 1}); s.Recipients[0].Attempts != 2 {
		t.Errorf("recipients are %+v; want 2 attempts", s.Recipients)
	}
	id = submit("deliver-post", sipherpeer.PostsPath, strings.Replace(post, `"p1"`, `"p2"`, 1))
	if s := w.Ends(id, map[string]int{"failed": 1}); !strings.Contains(s.Recipients[0].LastError, "acknowledgement") {
		t.Errorf("recipients are %+v; want an error about the acknowledgement", s.Recipients)
	}
}

func TestSipherOnTheEmbeddedEngine(t *testing.T) { sipher(t, Embedded(), queue.Standard) }

func TestSipherOnFIFOQueues(t *testing.T) { sipher(t, Embedded(), queue.FIFO) }

func TestSipherOnPostgreSQL(t *testing.T) {
	e := Postgres()
	e.Require(t)
	sipher(t, e, queue.Standard)
}

func TestSipherOnTheAWSEngine(t *testing.T) {
	sipher(t, AWS(), queue.Standard)
}
