package cost

import (
	"fmt"
	"math"
	"strings"
	"time"

	"fedpost/internal/enqueue"
	"fedpost/internal/healthcheck"
	"fedpost/internal/ledger"
	"fedpost/internal/ledger/events"
)

// Demand is what a scenario needs of something that has a limit.
type Demand struct {
	What        string
	Need, Limit float64
	Whose       string // limit
}

// Scenario is a load, what it comes to, and what it needs of everything with a limit.
type Scenario struct {
	Name    string
	Facts   []Fact
	Demands []Demand
}

// Fact is a number of a scenario that has no limit.
type Fact struct{ What, Value string }

// Breaks returns the demand that is nearest to its limit, or beyond it furthest.
func (s Scenario) Breaks() Demand {
	worst := s.Demands[0]
	for _, d := range s.Demands {
		if d.Need/d.Limit > worst.Need/worst.Limit {
			worst = d
		}
	}
	return worst
}

// Limits of AWS.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
// https://docs.aws.amazon.com/kms/latest/developerguide/requests-per-second.html
const (
	PartitionWrites, PartitionReads = 1000, 3000   // units a second of one partition
	NewTableWrites, NewTableReads   = 4000, 12_000 // units a second of an on-demand table that is new
	InFlight                        = 120_000      // messages of a queue
	AccountConcurrency              = 1000
	KMSRequests                     = 10_000 // a second, in most regions
)

// Template is the template's parameters that limit a load, at their defaults.
type Template struct {
	RequestsPerSecond, NormalConcurrency, EnqueueConcurrency float64
	Memory                                                   int
}

// What the code fixes; tests hold these to it.
const (
	serverLots = 64               // partitions of the states of servers
	listShards = 128              // partitions of the list of a day's activities
	keysHeld   = 256              // opened keys in a process
	keyTTL     = 5 * time.Minute  // how long
	backOff    = 75 * time.Second // of the quick tries, in all
	checkTime  = 45 * time.Second // of the health check's 55 s, without its reserve
	probeTime  = 8 * time.Second  // of a host that hangs
	quickSpan  = 125 * time.Minute
	quickOnes  = 6 // checks in it

	// logAppends is how many items a second a log of events takes from all writers, as each
	// reads its end and puts the next number: half of what was measured with reads of 3 ms
	// and writes of 6 ms (beyond 80 writers without a pause some gave up).
	logAppends = 50
)

const perInvocation = 10 * ledger.ChunkSize

// Million is one activity to a million recipients, each on a host of its own.
func Million(t Template) Scenario {
	const n = 1_000_000
	each := enqueue.Limits{}.Complete().Inboxes
	load := Load{Recipients: each, Slow: 0.1, Memory: t.Memory, Body: 1700}
	calls := math.Ceil(n / float64(each))
	took := load.invocation(perInvocation).Seconds()
	rate := t.NormalConcurrency * perInvocation / took
	work := load.PerActivity()
	dollars := calls * (work.Calls*ApiCall + work.Enqueue + work.Deliver + work.SQS*SQSRequest/1e6 + work.Writes*WriteUnit/1e6 +
		work.Reads*ReadUnit/1e6 + work.Egress/gigabyte*EgressGB + work.Log/gigabyte*LogGB)
	chunksEach := rate / ledger.ChunkSize
	return Scenario{
		Name: "One activity to a million recipients",
		Facts: []Fact{
			{"calls of the API, of 50,000 recipients at most", number(calls)},
			{"messages: fan-outs, and deliveries of 50 recipients", number(calls + n/ledger.ChunkSize)},
			{"deliveries a second", number(rate)},
			{"minutes until all are made", fmt.Sprintf("%.1f", n/rate/60)},
			{"SQS requests", number(calls * work.SQS)},
			{"write units", number(calls * work.Writes)},
			{"read units", number(calls * work.Reads)},
			{"dollars, egress included", fmt.Sprintf("%.2f", dollars)},
			{"concurrency at which one call's partition takes 1,000 write units a second", number(PartitionWrites / 3 * took / 10)},
		},
		Demands: []Demand{
			{"invocations at once, for all that arrives at once", n / perInvocation, t.NormalConcurrency, "`NormalConcurrency`"},
			{"write units a second", chunksEach*3 + t.NormalConcurrency, NewTableWrites, "a new table's"},
			{"read units a second", rate + 3*chunksEach, NewTableReads, "a new table's"},
			{"write units a second of the hottest key, `A#<id>`, if one call is worked on at a time", chunksEach * 3, PartitionWrites, "a partition's"},
			{"read units a second of the hottest partition of server states, `S#<lot>`", rate / serverLots, PartitionReads, "a partition's"},
			{"items a second of the hottest log of events, `E#<log>`, if each invocation has a recipient that fails", chunksEach / 10, logAppends, "a log's"},
			{"messages in flight, 5 % of hosts going down in that moment", t.NormalConcurrency*10 + 0.05*rate*backOff.Seconds(), InFlight, "a queue's"},
			{"keys opened a second", t.NormalConcurrency / keyTTL.Seconds(), KMSRequests, "KMS's"},
		},
	}
}

// Rush is ten thousand activities a minute to ten recipients each, by ten thousand actors.
func Rush(t Template) Scenario {
	const perMinute, recipients, actors = 10_000.0, 10, 10_000.0
	load := Load{Activities: perMinute * 60 * 24, Recipients: recipients, Slow: 0.1, Dead: 0.02, Memory: t.Memory, Body: 1700}
	rate := perMinute / 60
	took := load.invocation(10 * recipients).Seconds() // ten messages
	needed := rate / 10 * took
	accept := 0.020 + (CoreAccept+recipients*CoreAcceptEach).Seconds()*MemoryPerCore/enqueueMemory
	work := load.PerActivity()
	// A process signs for so many actors while it holds a key; it finds the key if it
	// had the same actor in that time.
	seen := rate / needed * keyTTL.Seconds()
	found := math.Min(1, math.Min(seen, keysHeld)/actors)
	opened := rate * (1 - found)
	month := 0.0
	for _, l := range (Stack{Queues: 4, Retention: 30}).Bill(load) {
		month += l.Dollars
	}
	return Scenario{
		Name: "Ten thousand activities a minute, to ten recipients each, by ten thousand actors",
		Facts: []Fact{
			{"calls, messages a second", number(rate)},
			{"deliveries a second", number(rate * recipients)},
			{"dollars a month", number(month)},
			{"dollars a month for opening keys", number(opened * days * 24 * 3600 * 0.03 / 10_000)},
		},
		Demands: []Demand{
			{"calls a second", rate, t.RequestsPerSecond, "`RequestsPerSecond`"},
			{"invocations of the API at once", rate * accept, t.EnqueueConcurrency, "`EnqueueConcurrency`"},
			{"invocations of deliver at once", needed, t.NormalConcurrency, "`NormalConcurrency`"},
			{"write units a second, with deduplication keys", rate * (work.Writes + 2), NewTableWrites, "a new table's"},
			{"read units a second", rate * work.Reads, NewTableReads, "a new table's"},
			{"write units a second of the list of a day, `F#<day>#<shard>`", rate / listShards, PartitionWrites, "a partition's"},
			{"write units a second of the counts of a day, `C#<day>`", (needed + rate*accept) / CountEvery, PartitionWrites, "a partition's"},
			{"items a second of a log of events, `E#<log>`, 2 % of deliveries being given up", 0.02 * rate * recipients / events.Shards, logAppends, "a log's"},
			{"keys opened a second", opened, KMSRequests, "KMS's"},
			{"messages in flight", needed*10 + 0.02*rate*recipients*backOff.Seconds(), InFlight, "a queue's"},
		},
	}
}

// Outage is a hundred thousand hosts of which five in a hundred go down in the same minute,
// for good, with ten activities a day to all hosts.
func Outage(t Template) Scenario {
	const hosts, down, activities = 100_000.0, 0.05, 10.0
	dead := hosts * down
	capacity := healthcheck.DefaultProbes * checkTime.Seconds() / probeTime.Seconds() // a run
	load := Load{Recipients: hosts, Slow: 0.1, Memory: t.Memory, Body: 1700}
	took := load.invocation(perInvocation).Seconds()
	parked := activities * 7 * dead
	return Scenario{
		Name: "A hundred thousand hosts, 5 % of them down, ten activities a day to all",
		Facts: []Fact{
			{"hosts down", number(dead)},
			{"probes a minute, if all hang", number(capacity)},
			{"minutes until each was probed once", fmt.Sprintf("%.0f", dead/capacity)},
			{"parked deliveries after seven days, before they are given up", number(parked)},
			{"their storage in GB, at 2 KB each", fmt.Sprintf("%.1f", parked*2000/gigabyte)},
			{"dollars a month for what goes to hosts that are down", number(activities * days * dead *
				(DownForGood.SQS*SQSRequest + DownForGood.Writes*WriteUnit + DownForGood.Reads*ReadUnit) / 1e6)},
			{"minutes of all invocations for an activity to the healthy ones", fmt.Sprintf("%.1f", (hosts-dead)/perInvocation*took/t.NormalConcurrency/60)},
			{"minutes until all that is parked is tried, if all hosts come back at once after seven days", fmt.Sprintf("%.0f",
				parked/10*(FastAnswer+Calls).Seconds()/t.NormalConcurrency/60)},
		},
		Demands: []Demand{
			{"probes a minute in the first two hours", dead * quickOnes / quickSpan.Minutes(), capacity, "the health check's, if all hang"},
			{"probes a minute later, one a day", dead / (24 * 60), capacity, "the health check's, if all hang"},
			{"write units a second of states, two for each", 2 * math.Min(capacity/60, dead*quickOnes/quickSpan.Seconds()), PartitionWrites, "a partition's"},
			{"items a second of a log of events, `E#<log>`, when the hosts go down", dead / backOff.Seconds() / events.Shards, logAppends, "a log's"},
			{"messages in flight, when the hosts go down: five tries of each host", dead * 5, InFlight, "a queue's"},
			{"dead letters an hour after seven days", activities / 24 * dead, 3600 * PartitionWrites, "a partition's, of `D#<day>`"},
		},
	}
}

// number writes n with thousands separators, and decimals only below ten.
func number(n float64) string {
	if n < 10 && n != math.Trunc(n) {
		return fmt.Sprintf("%.1f", n)
	}
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Markdown writes a scenario as docs/scale.md has it.
func (s Scenario) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| | |\n|---|---|\n", s.Name)
	for _, f := range s.Facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.What, f.Value)
	}
	b.WriteString("\n| needed at most | | limit | whose | used |\n|---|---|---|---|---|\n")
	for _, d := range s.Demands {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s %% |\n", d.What, number(d.Need), number(d.Limit), d.Whose, number(100*d.Need/d.Limit))
	}
	return b.String()
}
