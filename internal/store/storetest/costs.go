package storetest

import (
	"fmt"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/servers/parking"
)

// costs holds the store to what it may cost: the calls to the engine, in DynamoDB's units; see
// meter.
var costs = group{"costs", []testCase{
	{"RecordingAnActivityTo50InboxesIsOneWrite", func(b *bed) {
		for _, shared := range []bool{false, true} {
			r := b.newRecord(0)
			r.Inline = inboxes(50, shared)
			r.Recipients, r.Targets, r.Fingerprint = 50, 50, strings.Repeat("x", 43)
			b.costs("record", cost{writeUnits: 1, writes: 1}, func() { b.must(b.CreateActivity(b.ctx, r)) })
		}
	}},
	{"AThousandRecipientsThatAcceptCostATenthOfAUnitEach", func(b *bed) {
		const n = 1000
		r := b.newRecord(0)
		r.Recipients, r.Targets, r.Fingerprint = n, n, strings.Repeat("x", 43)
		targets := inboxes(n, true)
		total := b.table.of(func() {
			b.must(b.CreateActivity(b.ctx, r))
			var chunks [][]activity.Target
			for from := 0; from < n; from += ledger.ChunkSize {
				chunks = append(chunks, targets[from:from+ledger.ChunkSize])
			}
			b.must(b.PlanChunks(b.ctx, r.ID, 0, chunks, r.Forget))
			for number := range chunks {
				w := &work{bed: b, id: r.ID, number: number}
				c := w.claim(w.chunk(), "a worker's name of 36 characters....")
				w.record(&c, w.deliveries(ledger.ChunkSize)...)
			}
		})
		b.t.Logf("write units per recipient: %.3f, read units: %.3f, requests to the table: %.3f",
			float64(total.writeUnits)/n, float64(total.readUnits)/n, float64(total.writes+total.reads)/n)
		if total.writeUnits > n/10 {
			b.t.Errorf("%d recipients cost %+v", n, total)
		}
	}},
	{"AChunkIsInspectedInOneRequestClaimedInOneWrite", func(b *bed) {
		w := b.work(50)
		b.costs("inspect", cost{readUnits: 1, reads: 1}, func() { w.inspect(w.chunk()) })
		k := w.inspect(w.chunk())
		var c ledger.Claim
		b.costs("claim", cost{readUnits: 1, reads: 1, writeUnits: 1, writes: 1}, func() {
			var err error
			c, err = b.Claim(b.ctx, w.chunk(), k, strings.Repeat("x", 36), b.in(lease))
			b.must(err)
		})
		b.costs("final state", cost{writeUnits: 1, writes: 1}, func() { w.record(&c, w.deliveries(50)...) })
		b.costs("inspect", cost{readUnits: 1, reads: 1}, func() { w.inspect(w.chunk()) })
		w.number = 3
		b.costs("inspect chunk 3", cost{readUnits: 2, reads: 2}, func() { w.inspect(w.chunk()) })
	}},
	{"AFewFailuresCostNothingMore", func(b *bed) {
		w := b.work(50)
		c := w.claim(w.chunk(), strings.Repeat("x", 36))
		rs := w.deliveries(50)
		for p := range 5 {
			rs[p] = w.outcomeOf(p, activity.Retrying, 1)
			rs[p].Response = "<html>\n<head><title>503 Service Temporarily Unavailable</title></head>\n<body>busy</body>\n</html>"
			rs[p].NextAttemptAt = b.in(time.Duration(5000+p) * time.Millisecond)
		}
		b.costs("failures", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Record(b.ctx, &c, rs, false)) })
		b.costs("end", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Record(b.ctx, &c, nil, true)) })
	}},
	{"FiveLastAttemptsFitIntoTheRecord", func(b *bed) {
		var tries ledger.Tries
		for n := range 7 {
			var err error
			tries, err = tries.Add(ledger.Try{
				At: b.in(time.Duration(n*n*977) * time.Second), Status: 500 + n%4, Form: "cavage", Took: time.Duration(n*1234) * time.Millisecond,
				Error: fmt.Sprintf("no answer in time: dial tcp [2001:db8::%d]:443: %s", n, noise(100)),
			})
			b.must(err)
		}
		w := b.work(50)
		chunk := w.claim(w.chunk(), "chunk")
		rs := w.deliveries(50)
		for p := range 5 {
			rs[p] = w.outcomeOf(p, activity.Retrying, 1)
			rs[p].Tries = tries[:0]
			var err error
			rs[p].Tries, err = rs[p].Tries.Add(ledger.Try{At: b.in(time.Duration(p*317) * time.Millisecond), Status: 503, Error: "answered 503 Service Unavailable", Form: "cavage", Took: 317 * time.Millisecond})
			b.must(err)
		}
		b.costs("a chunk with 5 failures", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Record(b.ctx, &chunk, rs, true)) })
		c := w.claim(w.one(3, 1), strings.Repeat("x", 36))
		r := w.outcomeOf(3, activity.Delivered, 1)
		r.Tries = tries
		b.costs("the end of a retry", cost{writeUnits: 1, writes: 1}, func() { w.record(&c, r) })
		if got := w.inspect(w.chunk()).Recipients[3]; got.Tries != tries {
			b.t.Errorf("kept %s, want %s", got.Tries, tries)
		}
		if all, err := tries.List(); err != nil || len(all) != 5 || all[0].Status != 502 || len(all[4].Error) > 100 {
			b.t.Errorf("tries %+v, %v", all, err)
		}
	}},
	{"ARetryIsOneReadAndTwoWrites", func(b *bed) {
		w := b.work(50)
		chunk := w.claim(w.chunk(), "chunk")
		w.record(&chunk, w.outcomeOf(7, activity.Retrying, 1))
		total := b.table.of(func() {
			c := w.claim(w.one(7, 1), strings.Repeat("x", 36))
			r := w.outcomeOf(7, activity.Retrying, 1)
			r.Response = strings.Repeat("<p>The server is down for maintenance &amp; will be back.</p>\n", 16)
			w.record(&c, r)
		})
		if total.writeUnits > 2 || total.reads > 1 || total.readUnits > 3 {
			b.t.Errorf("a retry costs %+v", total)
		}
	}},
	{"AParkedDeliveryIsOneWrite", func(b *bed) {
		p := b.parked(b.newLot(), b.newID(), 3)
		p.Activity.Type, p.Activity.Priority = "Create", activity.Normal
		p.Activity.Body = note(1500)
		b.costs("park", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Park(b.ctx, []parking.Parked{p})) })
		b.costs("look", cost{readUnits: 1, reads: 1}, func() {
			_, err := b.IsParked(b.ctx, []parking.ID{p.ID()})
			b.must(err)
		})
		b.costs("leave", cost{writeUnits: 1, writes: 1}, func() { b.must(b.Unpark(b.ctx, []parking.ID{p.ID()})) })
	}},
	{"AHealthyServerCostsOneReadOf100", func(b *bed) {
		var keys []string
		for i := range 100 {
			keys = append(keys, circuit.HostKey(fmt.Sprintf("%s%d.example", b.newID(), i)))
		}
		b.costs("servers", cost{readUnits: 100, reads: 1}, func() {
			_, err := b.Servers(b.ctx, keys...)
			b.must(err)
		})
	}},
}}

// costs checks that f costs at most limit.
func (b *bed) costs(what string, limit cost, f func()) {
	b.t.Helper()
	got := b.table.of(f)
	if got.writeUnits > limit.writeUnits || got.readUnits > limit.readUnits || got.writes > limit.writes || got.reads > limit.reads {
		b.t.Errorf("%s costs %+v, at most %+v", what, got, limit)
	}
}

// deliveries are the outcomes of n targets that accept, at various times and with various answers.
func (w *work) deliveries(n int) []ledger.Recipient {
	rs := make([]ledger.Recipient, n)
	for p := range rs {
		rs[p] = w.outcome(p, activity.Delivered)
		rs[p].UpdatedAt = w.in(time.Duration(p*p*37%1900) * time.Millisecond)
		if p%7 == 0 {
			rs[p].LastStatus = 200
		}
	}
	return rs
}

// note returns a Create of a Note as Mastodon sends it, of about n bytes.
func note(n int) string {
	const head = `{"@context":["https://www.w3.org/ns/activitystreams",{"ostatus":"http://ostatus.org#","atomUri":"ostatus:atomUri","sensitive":"as:sensitive","toot":"http://joinmastodon.org/ns#","votersCount":"toot:votersCount"}],` +
		`"id":"https://social.example.net/users/m.ortega/statuses/113527788234515634/activity","type":"Create","actor":"https://social.example.net/users/m.ortega","published":"2026-11-21T08:15:09Z",` +
		`"to":["https://www.w3.org/ns/activitystreams#Public"],"cc":["https://social.example.net/users/m.ortega/followers"],"object":{"id":"https://social.example.net/users/m.ortega/statuses/113527788234515634","type":"Note","summary":null,"inReplyTo":null,` +
		`"url":"https://social.example.net/@m.ortega/113527788234515634","attributedTo":"https://social.example.net/users/m.ortega","sensitive":false,"content":"<p>`
	const text = `Yesterday the harbour froze over for the first time in eleven years, and by noon half of the town was out on the ice with sledges, thermos flasks and one very confused dog. My neighbour measured nineteen centimetres near the old pier. He says it will hold until Thursday; the forecast disagrees. Grüße an alle, die auch frieren! `
	const tail = `</p>","attachment":[],"tag":[]}}`
	room := max(0, n-len(head)-len(tail))
	return head + strings.Repeat(text, room/len(text)+1)[:room] + tail
}
