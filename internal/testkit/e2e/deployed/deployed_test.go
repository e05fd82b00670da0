package deployed

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/testkit/caller"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/fediverse"
)

// The environment that localstack/test-deployed.sh sets.
const (
	// apiURL is the deployed API with its stage.
	apiURL = "FEDPOST_DEPLOYED_API"
	// inboxHost is this machine as the functions see it; loopback by default.
	inboxHost = "FEDPOST_DEPLOYED_INBOX_HOST"
	// methods is "any" if the server keeps routes for any method, "listed" if
	// localstack/deploy.sh has written the methods out.
	methods = "FEDPOST_DEPLOYED_METHODS"
)

type stack struct {
	*testing.T
	client *client.Client
	keyID  string
	inbox  *fediverse.Inbox
	// url of the inbox, as the functions see it.
	url string
}

// open makes a key and an inbox that knows it.
func open(t *testing.T) *stack {
	base := os.Getenv(apiURL)
	if base == "" {
		t.Skipf("no deployed stack is named: run localstack/test-deployed.sh, or set %s", apiURL)
	}
	s := &stack{T: t, keyID: "https://social.example/users/" + rand.Text() + "#main-key"}
	s.client = caller.Of(t, base, caller.Through(Signing{Config: awstest.Config(t), Next: http.DefaultTransport, Now: time.Now}))
	key, err := s.client.GenerateKey(t.Context(), s.keyID, "rsa")
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusConflict {
		// MiniStack may run an event twice and give the second answer.
		key, err = s.client.Key(t.Context(), s.keyID)
	}
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(key.PublicKeyPEM))
	if block == nil {
		t.Fatalf("no PEM: %s", key.PublicKeyPEM)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	s.inbox = fediverse.NewInbox(map[string]crypto.PublicKey{s.keyID: public})
	s.url = serve(t, s.inbox)
	return s
}

func serve(t *testing.T, h http.Handler) string {
	host, listen := os.Getenv(inboxHost), ":0" // in a container, this machine is not loopback
	if host == "" {
		host, listen = "127.0.0.1", "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); err != http.ErrServerClosed {
			t.Errorf("inbox: %v", err)
		}
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("inbox: %v", err)
		}
	})
	return fmt.Sprintf("http://%s:%d", host, l.Addr().(*net.TCPAddr).Port)
}

// submit enqueues with a deduplication key: every client that may have to repeat
// a request should.
func (s *stack) submit(activity string, sub client.Submission) client.Accepted {
	s.Helper()
	sub.Activity, sub.KeyID, sub.AllowKeyOfOther = json.RawMessage(activity), s.keyID, true
	sub.DeduplicationKey = cmp.Or(sub.DeduplicationKey, rand.Text())
	a, err := s.client.Send(s.Context(), sub)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// settled waits until an activity is done.
func (s *stack) settled(id string) client.Status {
	s.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		got, err := s.client.Activity(s.Context(), id)
		if err != nil {
			s.Fatal(err)
		}
		if got.Status == "done" {
			return got
		}
		if time.Now().After(deadline) {
			s.Fatalf("activity %s is not done after two minutes: %+v", id, got)
		}
		awstest.Wait(s, 500*time.Millisecond)
	}
}

func TestDeployedStackDelivers(t *testing.T) {
	s := open(t)
	body := strings.TrimSpace(fediverse.Fixture("mastodon-create-note"))
	a := s.submit(body, client.Submission{Recipients: client.To(s.url+"/a", s.url+"/b", s.url+"/c")})
	got := s.settled(a.ID)
	if got.Counts["delivered"] != 3 {
		t.Errorf("counts %v, want 3 delivered", got.Counts)
	}
	posts := s.inbox.Accepted()
	if len(posts) != 3 {
		t.Errorf("%d verified posts, want 3", len(posts))
	}
	for _, p := range posts {
		if p.Body != body {
			t.Errorf("%s got other bytes than were submitted", p.URL)
		}
	}
}

// A failed delivery comes back from the queue by the server's own event source.
func TestDeployedStackRetries(t *testing.T) {
	s := open(t)
	s.inbox.Then(fediverse.Status(http.StatusInternalServerError))
	a := s.submit(strings.TrimSpace(fediverse.Fixture("misskey-like")), client.Submission{Recipients: client.To(s.url + "/a")})
	got := s.settled(a.ID)
	if got.Counts["delivered"] != 1 || got.Recipients[0].Attempts != 2 {
		t.Errorf("%+v, want one that was delivered at the second attempt", got)
	}
	if n := len(s.inbox.Posts()); n != 2 {
		t.Errorf("%d posts, want 2", n)
	}
}

func TestDeployedStackKeepsOrder(t *testing.T) {
	s := open(t)
	s.inbox.Then(fediverse.Status(http.StatusServiceUnavailable))
	var want, ids []string
	for i := range 3 {
		body := fmt.Sprintf(`{"id":"https://social.example/o/%d","type":"Update","actor":"https://social.example/users/f"}`, i)
		want = append(want, body)
		ids = append(ids, s.submit(body, client.Submission{
			Recipients: client.To(s.url + "/a"), OrderingKey: s.keyID,
		}).ID)
	}
	for _, id := range ids {
		if got := s.settled(id); got.Counts["delivered"] != 1 {
			t.Errorf("activity %s is %+v, want 1 delivered", id, got)
		}
	}
	var got []string
	for _, p := range s.inbox.Accepted() {
		got = append(got, p.Body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

func TestDeployedStackFindsDuplicates(t *testing.T) {
	s := open(t)
	body, key := `{"id":"https://social.example/d","type":"Like","actor":"https://social.example/users/f"}`, rand.Text()
	first := s.submit(body, client.Submission{Recipients: client.To(s.url + "/a"), DeduplicationKey: key})
	second := s.submit(body, client.Submission{Recipients: client.To(s.url + "/a"), DeduplicationKey: key})
	if second.Status != "duplicate" || second.ID != first.ID {
		t.Errorf("first %+v, second %+v", first, second)
	}
	s.settled(first.ID)
	if n := len(s.inbox.Accepted()); n != 1 {
		t.Errorf("%d posts, want 1", n)
	}
}

func TestDeployedAPIRefusesUnsignedRequests(t *testing.T) {
	open(t)
	_, err := caller.Of(t, os.Getenv(apiURL)).Activity(t.Context(), "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "403") {
		return
	}
	if strings.HasPrefix(os.Getenv(apiURL), "http://") {
		// AWS speaks https only, so this is a stand-in.
		t.Skipf("the server takes no authorisation from an API's definition: an unsigned request got %v", err)
	}
	t.Errorf("error %v, want 403", err)
}

// A method that no route takes reaches the function, whose answer says what would
// be taken. API Gateway's own answer would be a 403.
func TestDeployedRoutesTakeAnyMethod(t *testing.T) {
	s := open(t)
	if os.Getenv(methods) == "listed" {
		t.Skip("the server drops routes for any method, so the methods were written out")
	}
	err := s.client.Do(t.Context(), http.MethodPatch, "/v1/activities/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", []byte("{}"), nil)
	if p := (*client.Problem)(nil); !errors.As(err, &p) || p.Status != http.StatusMethodNotAllowed {
		t.Errorf("PATCH: %v, want the function's 405", err)
	}
}
