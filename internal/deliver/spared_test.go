package deliver_test

import (
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/testkit/world"
)

// TestOneAcceptanceSparesNoThousandInboxesThatFail: deliveries are sent although the circuit is
// open while one inbox has accepted, and they count against the host's budget. 1914 were sent.
func TestOneAcceptanceSparesNoThousandInboxesThatFail(t *testing.T) {
	t.Parallel()
	const good, each, posts = "https://mixed.example/good", 100, 20
	w, inVain := world.New(t, world.Options{}), 0
	w.Servers.Script("mixed.example", world.OneByOne(func(r world.Request, _ int) outcome.Outcome {
		if strings.HasPrefix(r.Inbox, "probe:") || r.Inbox == good {
			return world.Status(202)
		}
		inVain++
		return world.Status(500)
	}))
	w.Send(w.Activity("Create"), good)
	w.Run(time.Minute, 5*time.Second)
	bad := inboxesAt("mixed.example", posts*each)
	for i := range posts {
		w.Send(w.Activity("Create"), bad[i*each:(i+1)*each]...)
		w.Run(2*time.Minute, 5*time.Second)
	}
	if inVain > 50 {
		t.Errorf("%d requests in vain within %d minutes after one acceptance, want at most 50", inVain, 2*posts)
	}
}
