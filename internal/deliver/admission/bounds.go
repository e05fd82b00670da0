package admission

import (
	"cmp"
	"time"
)

// Bounds are the sizes that a process chooses. All other bounds follow from them (table).
type Bounds struct {
	// Places bounds the attempts of a queue under way. Each takes a file and up to 60 KB of memory
	// (21 KB without TLS). Default 256.
	Places int
	// Spare bounds those beyond Places, of all queues of the process together. If each of the four in
	// `up` had as many of its own, they would need 140 MB more. Default 0.
	Spare int
	// Computing bounds the attempts whose request is not signed yet. Default Places.
	Computing int
	// PerHost is how many attempts under way an unknown host gets. Each accepted delivery adds
	// one, up to PerHostMost. Defaults 8 and PerHost.
	PerHost, PerHostMost int
	// Waiting bounds the recipients that wait in memory. 0: no bound, for a process that
	// receives no more than it can hold, as on Lambda.
	Waiting int
	// Bytes is how much memory large messages take, with what they refer to; 0: any.
	Bytes int
}

// perHosts is PerHostMost of a process with hundreds of invocations at once, as a multiple of what
// one of them gets. A smaller one delays the deliveries to a large server that is slow.
const perHosts = 40

// largeEach is how many bytes of large messages a process has in memory for each place.
const largeEach = 96 << 10

// ForHundreds returns the bounds for the invocations of one queue in a process with hundreds of
// them at once; perHost is what one gets at a host. The process completes them with Shared.
func ForHundreds(places, perHost int) Bounds {
	return Bounds{Places: places, Spare: places, Waiting: places, Bytes: places * largeEach, PerHostMost: max(1, min(perHosts*perHost, places/2))}
}

// computing is how many unsigned attempts have a place, per processor: package outbound signs
// two at once, and as many have to be ready.
const computing = 4

// Shared returns b with what follows from the number of processors, and from a host's budget of
// requests in vain. Three fifths of the budget open a host's circuit. The attempts under way by
// then, of up to three requests each, have to fit into the rest.
func (b Bounds) Shared(processors, budget int) Bounds {
	b.Computing, b.PerHost = computing*processors, min(max(1, budget*2/5/3), b.PerHostMost)
	return b
}

func (b Bounds) complete() Bounds {
	b.Places = max(1, cmp.Or(b.Places, 256))
	b.Computing = min(cmp.Or(b.Computing, b.Places), b.Places)
	b.PerHost = max(1, cmp.Or(b.PerHost, 8))
	b.PerHostMost = max(b.PerHost, b.PerHostMost)
	return b
}

const (
	// quick is how long an attempt at a prompt host takes at most. After that the attempt is
	// old.
	quick = time.Second
	// timeout is how long an attempt usually takes at a host that hangs.
	timeout = 15 * time.Second
	// unsigned is how long an attempt stays unsigned at most, on a slow machine, while table and
	// keys can be reached. No host can make that longer.
	unsigned = time.Second / 10
	// lookEvery is the interval of looks for attempts to send back.
	lookEvery = 50 * time.Millisecond
	// receives is how often a delivery is received at most for want of a place: the third
	// receive waits as long as its caller can.
	receives = 3
	// tick is the least time from the first receive of a delivery to the second. From then to the
	// third it is twice as long: together as long as an attempt at a host that hangs.
	tick = 5 * time.Second
	// longestWait is the longest time until a delivery comes back, in case its host recovers
	// meanwhile. For a delivery that waits for its own host it doubles with each further receive,
	// up to longestTurn: no wait is longer than the time that the delivery has waited already.
	longestWait = 15 * time.Minute
	// longestTurn is longestWait where attempts are made one at a time. A slow host can then have
	// more deliveries than it answers in hours: after shorter waits each is received again and
	// again.
	longestTurn = 4 * time.Hour
)

// part is the share of n for hosts that are not prompt, and for one inbox of its host. The rest
// is reserved for those that give places back soon.
func part(n int) int { return max(1, n-max(1, n/4)) }

type rule int

const (
	none rule = iota
	allPlaces
	othersPlaces
	allComputing
	siteShare
	hostWindow
	inboxShare
	inboxAlone
	protocolPlaces
	allWaiting
	largeWaiting
	messagesWaiting
)

type row struct {
	counts, most, full, why string
	// reason is for the recipient's record; it completes "waits for a place: ".
	reason string
}

const waits = "it waits; who has held least is next"

// table has every bound on attempts.
var table = [...]row{
	allPlaces: {
		"attempts under way, without the first of each registrable domain at prompt hosts", "Bounds.Places; with those, as many more as the queues of the process have left of Bounds.Spare", waits,
		"files and memory; prompt hosts of as many domains as Places and Spare, but one, may hang in the same moment, and no other prompt host waits; whatever else hangs, of as many as Spare and an eighth of Places, but one; of hosts that hang in several queues, each queue gets its part of Spare",
		"this process has as many requests under way as it can",
	},
	othersPlaces: {
		"attempts at hosts that are not prompt, and those older than a second, without the first of each domain at prompt hosts", "at sites that have held places three quarters of three quarters of Places; at others three quarters, beside what has become old at prompt hosts; never the last eighth of Places", waits,
		"nothing that hangs gives a place back within its time-out, so places are kept for those that do, and for hosts never met before",
		"requests that hang hold the places of hosts that do not answer quickly",
	},
	allComputing: {
		"attempts whose request is not signed yet", "Bounds.Computing; those at hosts that are not prompt three quarters of it", waits,
		"the order of places is that of signatures, too, and a busy processor makes no host look slow",
		"this machine has no processor for one more signature",
	},
	siteShare: {
		"attempts at one registrable domain, beyond the first", "as many as are left free for its class, less a sixteenth of Places, for prompt hosts an eighth", waits,
		"one owner leaves half to others, two leave a third, however many hosts they have; what is kept is for domains that have no place",
		"its domain has its share of requests under way",
	},
	hostWindow: {
		"attempts at one host", "PerHost, and one more with each acceptance, up to PerHostMost; a failure halves it, down to PerHost, the third in a row down to one; an hour without acceptance ends what is above PerHost", waits,
		"small servers have few workers, and a host that hangs should show it with few attempts",
		"its server has its share of requests under way",
	},
	inboxShare: {
		"attempts at one inbox", "three quarters of what its host gets", waits,
		"an inbox that hangs leaves room for those that show that its host is well",
		"its inbox has its share of requests under way",
	},
	inboxAlone: {
		"attempts at an inbox that has accepted nothing since its last outage, or at a host with much of its daily budget spent", "1", waits,
		"if the one fails, the others are spared; if it is accepted, they wait for it no longer",
		"one request is under way, which shows whether its inbox or server is back",
	},
	protocolPlaces: {
		"attempts of a protocol, if it has a bound of its own", "Lane.Places, and Lane.PerHost at a host", waits,
		"Sipher's servers are tried for up to 45 s each, and have no circuit",
		"its protocol has its share of requests under way",
	},
	allWaiting: {
		"recipients that wait in memory", "Bounds.Waiting, and a quarter more for activities of which nothing is in memory",
		"messages wait; of those that wait at a full bound, all but as many as begin there soon go back to their queue, who has held most first",
		"memory; what waits for a host that hangs must not keep others from being received",
		"",
	},
	largeWaiting: {
		"bytes of large messages", "Bounds.Bytes, and a quarter more for senders of whom no large message is in memory",
		"large messages wait, a quarter of Bytes of them; the rest goes back to its queue",
		"memory; small messages need none of it, so that large ones do not keep them from being received",
		"",
	},
	messagesWaiting: {
		"messages that wait for any of this memory", "mostTickets, of a process that asks for Room", "no message is received",
		"each takes some 40 KB; and only on the queue can one whose sender sends little overtake them",
		"",
	},
}
