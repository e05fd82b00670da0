package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"fedpost/internal/protocol/sipher/wire"
	"fedpost/internal/testkit/sipherpeer"
)

// ownOrigin is who we are in the Sipher network.
const ownOrigin = "https://us.example"

// Sipher is how a server speaks the Sipher protocol. It is the target of jobs, the proxy
// of others' jobs, and a peer that registers itself.
type Sipher struct {
	// Known: we have sent to it before the story begins. Otherwise we discover it, or it registers
	// itself.
	Known bool
	// Inline is one of the two forms of acknowledgements; Accepted is what those of follows say:
	// true, false, null or absent.
	Inline   bool
	Accepted string
	// Proxying is how it treats requests to pass something on, in order of time; before the first,
	// it passes everything on.
	Proxying []Phase
}

// Further answers of Sipher servers.
const (
	// Hides and Closes are faults between us and the server: others reach it.
	Hides  Kind = "cannot be found by us"
	Closes Kind = "closes our connections without an answer"
	// Nods: its acknowledgements have nothing but their method.
	Nods Kind = "acknowledges by the method alone"
	// Forges: its acknowledgements are signed wrongly.
	Forges Kind = "acknowledges with a wrong signature"
	// Mumbles: it accepts, and answers without an acknowledgement.
	Mumbles Kind = "accepts without an acknowledgement"
	// Claims: it says that it has the delivery already, and takes nothing.
	Claims Kind = "says 409, had it before"
	// Invents: as a proxy, it invents an acknowledgement.
	Invents Kind = "invents acknowledgements"
)

// sipher adds servers that speak Sipher, and jobs for them. They have random numbers of their own,
// so seeds without them remain the same stories.
func (d *drawing) sipher() {
	rest := d.chances
	defer func() { d.chances = rest }()
	d.chances = chances{rand.New(rand.NewPCG(d.Seed, sipherStream))}
	if !d.is(0.2) {
		return
	}
	if d.is(0.7) {
		d.undisturbed()
	}
	if d.is(0.7) {
		d.Servers, d.Acts = nil, slices.DeleteFunc(d.Acts, func(a Act) bool { return a.Post != nil || a.Host != "" || a.N != 0 })
	}
	if d.is(0.4) {
		d.Settings["SIPHER_CHECK_LIMIT"] = pick(d.chances, "1", "2", "7")
	}
	switch d.IntN(5) {
	case 0, 1:
		d.detours()
	case 2:
		d.relapses()
	default:
		d.sipherMixture()
	}
	d.lines()
}

// sipherMixture has something of everything.
func (d *drawing) sipherMixture() {
	has := map[string]bool{}
	for _, feature := range []string{"hidden", "down", "statuses", "acks", "ordered", "keys", "delays", "operators"} {
		has[feature] = d.is(0.4)
	}
	d.proxies(d.IntN(3), 0.4)
	d.strangers(d.IntN(3))
	for i := range 1 + d.IntN(3) {
		d.sipherTarget(fmt.Sprintf("sipher%d.example", i), has)
	}
}

// detours are jobs for a server that only others reach. The proxies are honest, or one of them
// lies; strangers register, too.
func (d *drawing) detours() {
	s := Server{Host: "detour.example", Sipher: &Sipher{Known: true, Inline: d.is(0.5), Accepted: pick(d.chances, "true", "absent")}}
	at := d.within(d.span)
	s.Phases = []Phase{{at, Answer{Kind: pick(d.chances, Hides, Closes)}}, {at + d.between(30*minute, day), Answer{Kind: Accepts}}}
	d.proxies(1+d.IntN(2), float64(d.IntN(2)))
	d.strangers(d.IntN(3))
	d.Servers = append(d.Servers, s)
	for range 2 + d.IntN(6) {
		d.sipherJob(at+d.within(hour), s.Host, nil)
	}
}

// relapses are outages of a server that gets jobs only when an outage begins, and registers itself
// when it is over.
func (d *drawing) relapses() {
	s := Server{Host: "relapse.example", Sipher: &Sipher{Known: d.is(0.5), Accepted: "true"}}
	for at, n := d.within(d.span), 1+d.IntN(5); n > 0; n-- {
		down := d.between(10*minute, 8*hour)
		s.Phases = append(s.Phases, Phase{at, Answer{Kind: pick(d.chances, Refuses, Resets, Closes)}}, Phase{at + down, Answer{Kind: Accepts}})
		d.sipherJob(max(0, at-5*minute), s.Host, nil) // it is known by then
		for range 1 + d.IntN(3) {
			d.sipherJob(at+d.within(minute), s.Host, nil)
		}
		if d.is(0.7) {
			d.Acts = append(d.Acts, Act{At: at + down + d.within(2*minute), Do: Register, Host: s.Host})
		}
		at += down + d.between(hour, day)
	}
	d.Servers = append(d.Servers, s)
}

// sipherStream is the stream of random numbers of Sipher's part of a story. With this one the seeds
// of TestSimulation that once broke a promise remain the same stories.
const sipherStream = 169

// proxies are servers that we know and that can pass jobs on; a share of them lies.
func (d *drawing) proxies(n int, liars float64) {
	for i := range n {
		s := Server{Host: fmt.Sprintf("proxy%d.example", i), Sipher: &Sipher{Known: true}}
		switch {
		case d.is(liars):
			s.Sipher.Proxying = d.lies(d.within(d.span))
		case liars > 0 && d.is(0.2):
			s.Phases = d.sipherPhases(map[string]bool{"down": true})
		}
		d.Servers = append(d.Servers, s)
	}
}

// strangers register themselves again and again, and most of them lie.
func (d *drawing) strangers(n int) {
	for i := range n {
		s := Server{Host: fmt.Sprintf("stranger%d.example", i), Sipher: &Sipher{}}
		if d.is(0.8) {
			s.Sipher.Proxying = d.lies(0)
		}
		d.Servers = append(d.Servers, s)
		for at := d.within(d.span / 2); at < d.span; at += d.between(hour, 5*day) {
			d.Acts = append(d.Acts, Act{At: at, Do: Register, Host: s.Host})
		}
	}
}

// lies are the phases of a proxy that passes nothing on.
func (d *drawing) lies(from time.Duration) []Phase {
	claims, says := Answer{Kind: Claims}, Answer{Kind: Says, Status: 502}
	return []Phase{{pick(d.chances, 0, from), pick(d.chances, claims, claims, claims, says, says, says,
		Answer{Kind: Invents}, Answer{Kind: Says, Status: 400}, Answer{Kind: Hangs}, Answer{Kind: Resets})}}
}

// sipherTarget is a server that jobs are sent to.
func (d *drawing) sipherTarget(host string, has map[string]bool) {
	s := Server{Host: host, Sipher: &Sipher{
		Known: d.is(0.6), Inline: d.is(0.5), Accepted: pick(d.chances, "true", "true", "false", "null", "absent"),
	}}
	if d.is(0.8) {
		s.Phases = d.sipherPhases(has)
	}
	d.Servers = append(d.Servers, s)
	for _, ph := range s.Phases {
		if ph.Answer.Kind == Accepts && d.is(0.6) {
			d.Acts = append(d.Acts, Act{At: ph.From + d.within(10*minute), Do: Register, Host: host})
		}
	}
	for range 3 + d.IntN(15) {
		at := d.within(d.span)
		if len(s.Phases) > 0 && d.is(0.6) {
			at = max(0, pick(d.chances, s.Phases...).From-minute+d.within(5*minute))
		}
		d.sipherJob(at, host, has)
	}
	if has["operators"] {
		switch d.IntN(3) {
		case 0:
			at := d.within(d.span)
			d.Acts = append(d.Acts, Act{At: at, Do: Block, Host: host}, Act{At: at + d.between(minute, 3*day), Do: Unblock, Host: host})
		case 1:
			d.Acts = append(d.Acts, Act{At: d.within(d.span), Do: Cancel, N: d.n})
		default:
			d.Acts = append(d.Acts, Act{At: d.within(d.span), Do: RetryDead, Host: host})
		}
	}
}

func (d *drawing) sipherJob(at time.Duration, host string, has map[string]bool) {
	p := Post{Job: wire.DeliverFollow, Recipients: []Inbox{{host, sipherpeer.FollowsPath}}, Priority: pick(d.chances, "", "", "high", "low")}
	if d.is(0.6) {
		p.Job, p.Recipients[0].Path = "deliver-post", sipherpeer.PostsPath
	}
	switch {
	case has["ordered"] && d.is(0.5):
		p.Ordering, p.Priority = fmt.Sprint("sipher ", d.IntN(3)), ""
	case has["delays"] && d.is(0.2):
		p.Delay = d.between(time.Second, day)
	case has["delays"] && d.is(0.2):
		p.Expires = d.between(10*time.Second, hour)
	}
	if has["keys"] && d.is(0.5) {
		p.Dedup, p.Patience, p.Twins = fmt.Sprint("sipher key ", d.n), 1+d.IntN(4), d.IntN(2)
	}
	d.add(at, p)
}

// sipherPhases of a server: accepting, and failing in one way or another, alternately.
func (d *drawing) sipherPhases(has map[string]bool) []Phase {
	answers := map[string][]Answer{
		"hidden": {{Kind: Hides}, {Kind: Hides}, {Kind: Closes}, {Kind: Closes}},
		"down":   {{Kind: Refuses}, {Kind: Resets}, {Kind: Hangs}, {Kind: Swallows}},
		"statuses": {
			{Kind: Says, Status: 400},
			{Kind: Says, Status: 403},
			{Kind: Says, Status: 404},
			{Kind: Says, Status: 429, RetryAfter: "60"},
			{Kind: Says, Status: 500},
			{Kind: Says, Status: 503},
			{Kind: Claims},
		},
		"acks": {{Kind: Nods}, {Kind: Forges}, {Kind: Mumbles}, {Kind: Swallows}},
	}
	var all []Answer
	for _, feature := range []string{"hidden", "down", "statuses", "acks"} {
		if has[feature] {
			all = append(all, answers[feature]...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	var ps []Phase
	at := d.within(d.span)
	for range 1 + d.IntN(3) {
		ps = append(ps, Phase{at, pick(d.chances, all...)})
		at += d.between(10*time.Second, 2*day)
		ps = append(ps, Phase{at, Answer{Kind: Accepts}})
		at += d.between(minute, 2*day)
	}
	return ps
}

// payload is the text of a job, as servers write it.
func (p Post) payload() string {
	const when = "2026-05-06T14:17:40.000Z"
	if p.Job == wire.DeliverFollow {
		return fmt.Sprintf(`{"sim":%d,"following":{"id":"f%d","followerId":"alice%d","followingId":"bob","accepted":false,"createdAt":%q,"followerServerUrl":"https://%s","followingServerUrl":null,"acknowledged":false}, "federationUrl":%q,"method":"FEDERATE"}`,
			p.N, p.N, p.N, when, p.Recipients[0].Server, ownOrigin)
	}
	return fmt.Sprintf(`{"sim":%d,"method":"FEDERATE_POST","federationUrl":%q,"post":{"id":"p%d","content":[{"type":"text","value":"<b>caf\u00e9</b> & Tee ☕"}],"authorId":"alice","published":%q,"isPrivate":false}}`,
		p.N, ownOrigin, p.N, when)
}

// speaksSipher reports whether any server of the story does.
func (sc Scenario) speaksSipher() bool {
	for _, s := range sc.Servers {
		if s.Sipher != nil {
			return true
		}
	}
	return false
}
