package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fedpost/internal/engine/queue"
)

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * time.Hour
)

// chances are the random numbers from which a scenario is drawn.
type chances struct{ *rand.Rand }

func (c chances) is(p float64) bool { return c.Float64() < p }

// between returns a time whose order of magnitude is drawn, too: both what breaks within a second
// and what breaks after a month are worth trying.
func (c chances) between(least, most time.Duration) time.Duration {
	d := least
	for d < most && c.is(0.75) {
		d += time.Duration(c.Int64N(int64(d) * 3))
	}
	return min(d, most)
}

func (c chances) within(most time.Duration) time.Duration {
	return time.Duration(c.Int64N(int64(most)))
}

func pick[T any](c chances, of ...T) T { return of[c.IntN(len(of))] }

// Draw makes a scenario of a seed: first which kinds of things happen in it, then how much of each.
func Draw(seed uint64) Scenario {
	c := chances{rand.New(rand.NewPCG(seed, 7))}
	has := map[string]bool{}
	for _, feature := range features {
		has[feature] = c.is(0.3)
	}
	d := &drawing{chances: c, has: has, span: c.between(30*minute, 10*day)}
	d.Seed, d.Settings = seed, map[string]string{}
	if has["closed"] || has["twins"] && c.is(0.7) {
		d.Settings["DEDUPLICATION_FALLBACK"] = "closed"
	}
	if has["forgetful"] {
		d.Settings["RECORD_RETENTION"] = "1d"
	}
	d.processes()
	d.servers()
	d.posts()
	d.operators()
	d.troubles()
	d.rare()
	d.later()
	d.comebacks()
	d.sipher()
	d.bystanders()
	d.multitudes()
	slices.SortStableFunc(d.Acts, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	return d.Scenario
}

// On returns the scenario with queues of a type. The type is not drawn, so that a seed stays the
// same story: other queues make other calls, which would change all later draws.
func (sc Scenario) On(typ queue.Type) Scenario {
	sc.Settings = maps.Clone(sc.Settings)
	sc.Settings["QUEUE_TYPE"] = string(typ)
	return sc
}

// features are what a story may have.
var features = []string{
	"ordered", "manykeys", "fanout", "twins", "busy", "storms", "delays", "expiry", "keys", "text", "burst", "closed", "forgetful", "lambda", "overlap",
	"outages", "throttling", "hanging", "garbage", "unauthorized", "forbidden", "refusing", "inboxes", "strict", "limited", "rate",
	"pauses", "long pauses", "blocks", "cancels", "revivals", "kills", "failures", "lost", "deaths", "late", "latency", "skew", "setback",
}

// drawing is a scenario that is being drawn.
type drawing struct {
	Scenario
	chances
	has  map[string]bool
	span time.Duration // in which acts are done
	n    int
}

func (d *drawing) processes() {
	d.Overlap = d.has["overlap"]
	if !d.has["lambda"] {
		d.Processes = []Process{{Name: "up", Whole: true, Workers: 1 + d.IntN(3), Schedule: true}}
		return
	}
	for i := range 2 + d.IntN(2) {
		p := Process{Name: fmt.Sprint("fn", i), Workers: 1 + d.IntN(2), Schedule: i < 2}
		if d.has["skew"] {
			p.Skew = time.Duration(d.IntN(2001)-1000) * time.Millisecond
		}
		d.Processes = append(d.Processes, p)
	}
}

func (d *drawing) servers() {
	for i := range 1 + d.IntN(5) {
		s := Server{Host: fmt.Sprintf("s%d.example", i)}
		if i > 0 || d.is(0.5) {
			s.Phases = d.phases()
		}
		if d.has["inboxes"] && d.is(0.5) {
			s.Inboxes = map[string][]Phase{"/u1/inbox": d.phases(), "/u2/inbox": d.phases()}
		}
		if d.has["strict"] && d.is(0.5) {
			// Only one passing refusal of its own form: after more of them fedpost may believe that
			// it takes the other.
			s.Strict = true
			s.Phases = []Phase{{d.within(d.span), Answer{Kind: Says, Status: pick(d.chances, 401, 403), Once: true}}}
		}
		if d.has["limited"] && d.is(0.3) {
			s.Rate = pick(d.chances, 10, 30, 100)
		}
		d.Servers = append(d.Servers, s)
	}
}

// phases of a server: accepting, and failing in one way or another, alternately.
func (d *drawing) phases() []Phase {
	var answers []Answer
	add := func(feature string, as ...Answer) {
		if d.has[feature] {
			answers = append(answers, as...)
		}
	}
	add("outages", Answer{Kind: Refuses}, Answer{Kind: Resets}, Answer{Kind: Says, Status: 500}, Answer{Kind: Says, Status: 503}, Answer{Kind: Swallows})
	add("hanging", Answer{Kind: Hangs})
	add("garbage", Answer{Kind: Rants}, Answer{Kind: Floods})
	for _, after := range []string{"", "1", "0", "-1", "60", "3600", "999999999999999999999", "DATE", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		add("throttling", Answer{Kind: Says, Status: pick(d.chances, 429, 503), RetryAfter: after})
	}
	add("unauthorized", Answer{Kind: Says, Status: 401})
	add("forbidden", Answer{Kind: Says, Status: 403})
	add("refusing", Answer{Kind: Says, Status: 404}, Answer{Kind: Says, Status: 400}, Answer{Kind: Says, Status: 410})
	if len(answers) == 0 {
		return nil
	}
	var ps []Phase
	at := time.Duration(0)
	if d.is(0.7) {
		at = d.within(d.span)
	}
	for range 1 + d.IntN(4) {
		ps = append(ps, Phase{at, pick(d.chances, answers...)})
		at += d.between(5*time.Second, 12*day)
		if d.is(0.85) {
			ps = append(ps, Phase{at, Answer{Kind: Accepts}})
			at += d.between(minute, 6*day)
		}
	}
	return ps
}

func (d *drawing) inbox() Inbox {
	s := d.Servers[d.IntN(len(d.Servers))]
	paths := []string{"/inbox", "/u1/inbox", "/u2/inbox"}
	return Inbox{s.Host, pick(d.chances, paths...)}
}

func (d *drawing) recipients() []Inbox {
	n := 1 + d.IntN(4)
	if d.has["fanout"] && d.is(0.25) {
		n = 45 + d.IntN(80)
	}
	seen := map[Inbox]bool{}
	for range n {
		seen[d.inbox()] = true
	}
	all := slices.SortedFunc(maps.Keys(seen), func(a, b Inbox) int { return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Path, b.Path)) })
	for i := range n - len(all) {
		if n < 45 {
			break
		}
		all = append(all, Inbox{d.Servers[d.IntN(len(d.Servers))].Host, fmt.Sprintf("/m%d", i)})
	}
	return all
}

func (d *drawing) posts() {
	total := 5 + d.IntN(40)
	lines := 1 + d.IntN(4)
	if d.has["manykeys"] {
		total, lines = 60+d.IntN(140), 100
	}
	at := time.Duration(0)
	bursts := d.has["burst"]
	for range total {
		if !bursts || d.is(0.05) {
			at = d.within(d.span)
		}
		d.n++
		p := &Post{N: d.n, Recipients: d.recipients(), Actor: d.IntN(actors), Text: d.text(), Priority: pick(d.chances, "", "", "high", "low")}
		if d.has["ordered"] || d.has["manykeys"] {
			if d.is(0.8) {
				p.Ordering, p.Priority = fmt.Sprint("line ", d.IntN(lines)), ""
			}
		}
		switch {
		case d.has["delays"] && d.is(0.3):
			p.Delay = d.between(time.Second, 20*day)
		case d.has["expiry"] && d.is(0.3):
			p.Expires = d.between(minute, 9*day)
		}
		if d.has["keys"] && d.is(0.6) {
			p.Dedup, p.Patience = fmt.Sprint("key ", d.n), 1+d.IntN(4)
			if d.has["twins"] && d.is(0.5) {
				p.Twins = 1 + d.IntN(3)
			}
		}
		d.Acts = append(d.Acts, Act{At: at, Post: p})
	}
	if d.has["busy"] {
		d.busy()
	}
	d.lines()
}

// lines makes callers submit the posts of an ordering key one after another.
func (d *drawing) lines() {
	last := map[string]int{}
	slices.SortStableFunc(d.Acts, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	for _, a := range d.Acts {
		if a.Post != nil && a.Post.Ordering != "" {
			a.Post.After, last[a.Post.Ordering] = last[a.Post.Ordering], a.Post.N
		}
	}
}

// busy is a server that gets activities all the time.
func (d *drawing) busy() {
	host := d.Servers[d.IntN(len(d.Servers))].Host
	at, every := d.within(d.span), time.Duration(1+d.IntN(40))*time.Second
	for range 50 + d.IntN(200) {
		d.n++
		at += d.within(every)
		p := &Post{N: d.n, Recipients: []Inbox{{host, pick(d.chances, "/inbox", "/u1/inbox")}}, Text: "hello"}
		d.Acts = append(d.Acts, Act{At: at, Post: p})
	}
}

// mostText leaves room for the rest of an activity, which may have 256 KiB.
const mostText = 240 << 10

// text of any characters that JSON can carry.
func (d *drawing) text() string {
	if !d.has["text"] || d.is(0.7) {
		return "hello"
	}
	odd := []string{"\uFFFE", "\uFFFF", "\u0000", "\u001b[2J", "\u202e", "\U0001F4A9", "\U0010FFFF", "\U0001FFFE", "\u2028", "<&>", `"\`, "\uFDD0", "ÿ", "\uFEFF"}
	var b strings.Builder
	for range 1 + d.IntN(6) {
		b.WriteString(pick(d.chances, odd...))
	}
	if d.is(0.1) {
		times := 1 + d.IntN(4000)
		return strings.Repeat(b.String(), min(times, mostText/len(quoted(b.String()))))
	}
	return b.String()
}

func (d *drawing) operators() {
	some := func(feature string, most int, act func() Act) {
		if d.has[feature] {
			for range 1 + d.IntN(most) {
				a := act()
				a.At = d.within(d.span + 2*day)
				d.Acts = append(d.Acts, a)
			}
		}
	}
	host := func() string { return d.Servers[d.IntN(len(d.Servers))].Host }
	some("pauses", 3, func() Act { return Act{Do: Pause, Host: host(), For: d.between(minute, 9*day)} })
	some("long pauses", 1, func() Act { return Act{Do: Pause, Host: host(), For: 20*day + d.within(30*day)} })
	some("blocks", 2, func() Act { return Act{Do: Block, Host: host()} })
	some("rate", 2, func() Act { return Act{Do: Limit, Host: host(), Rate: pick(d.chances, 1, 6, 30, 60)} })
	some("cancels", 5, func() Act { return Act{Do: Cancel, N: 1 + d.IntN(d.n)} })
	some("kills", 6, func() Act { return Act{Do: Kill} })
	some("setback", 1, func() Act { return Act{Do: SetBack, For: d.between(time.Second, 2*hour)} })
	if d.has["revivals"] {
		some("revivals", 2, func() Act { return Act{Do: RetryDead, Host: host()} })
	}
	for i, a := range d.Acts {
		if a.Do == RetryDead {
			d.Acts[i].At += 8 * day
		}
	}
}

func (d *drawing) troubles() {
	if d.has["latency"] {
		d.Latency.Typical = d.between(time.Millisecond, 100*time.Millisecond)
	}
	rate := func(feature string) float64 {
		if !d.has[feature] {
			return 0
		}
		return pick(d.chances, 0.001, 0.01, 0.05)
	}
	d.Faults = Faults{Fail: rate("failures"), Lose: rate("lost"), Die: rate("deaths") / 10, Late: rate("late")}
	if d.Faults.Fail+d.Faults.Lose+d.Faults.Die+d.Faults.Late > 0 {
		d.Faults.Until = d.span
		if d.has["storms"] {
			for range 1 + d.IntN(4) {
				from := d.within(d.span)
				d.Faults.Storms = append(d.Faults.Storms, Span{from, from + d.between(10*time.Second, hour)})
			}
		}
	}
}
