package admission

import (
	"cmp"
	"time"
)

// Bounds are the sizes that a process chooses. All other bounds follow from them, by table.
type Bounds struct {
	// Places is how many attempts the process has under way at once. Each takes a file, and
	// some 50 KB of memory. Default 256.
	Places int
	// Young is how many of them have begun less than a second ago: it bounds what a
	// well-behaved load takes, as attempts beyond it make nothing faster. Default Places.
	Young int
	// Computing is how many of them have no signature yet. They have a processor at once, or
	// soon; what waits for longer waits without a place. Default Places.
	Computing int
	// PerHost is how many attempts a host gets that nothing is known of; with each delivery
	// that it accepts it gets one more, up to PerHostMost. Defaults 8 and PerHost.
	PerHost, PerHostMost int
	// Waiting is how many recipients wait in memory; 0: any number, for a
	// process that takes up no more than it is given, such as a Lambda's invocation.
	Waiting int
	// Bytes is how much memory large messages take, with what they refer to; 0: any.
	Bytes int
}

func (b Bounds) complete() Bounds {
	b.Places = max(1, cmp.Or(b.Places, 256))
	b.Young = min(cmp.Or(b.Young, b.Places), b.Places)
	b.Computing = min(cmp.Or(b.Computing, b.Places), b.Places)
	b.PerHost = max(1, cmp.Or(b.PerHost, 8))
	b.PerHostMost = max(b.PerHost, b.PerHostMost)
	return b
}

const (
	// quick is how long an attempt at a prompt host takes at most. An attempt that has been
	// under way for longer is old.
	quick = time.Second
	// timeout is how long an attempt takes at a host that hangs, usually.
	timeout = 15 * time.Second
	// lookEvery is how often it is looked whether something goes back.
	lookEvery = 50 * time.Millisecond
	// receives is how often a delivery is received at most because it found no place: a third
	// receive waits as long as its caller can.
	receives = 3
	// tick is the least time after which a delivery comes back. Those of five seconds come
	// back together, so that they are received in full batches.
	tick = 5 * time.Second
	// longestLine is the longest time after which a delivery comes back: a host that has
	// recovered meanwhile is not kept waiting for longer.
	longestLine = 15 * time.Minute
)

// part is the part of n that hosts get which are not prompt, and that one inbox gets of its
// host. The rest is kept for those that give places back at once, however small n is.
func part(n int) int { return max(1, n-max(1, n/4)) }

// rule is a row of table.
type rule int

const (
	none rule = iota
	allPlaces
	othersPlaces
	allYoung
	othersYoung
	allComputing
	siteShare
	hostWindow
	inboxShare
	inboxAlone
	protocolPlaces
	allWaiting
	largeWaiting
)

// row says what a rule bounds. Whoever waits for a rule is told its reason.
type row struct {
	counts, most, full, why string
	// reason completes "waits for a place: ".
	reason string
}

// waits is what happens to an attempt that finds a bound full: what becomes free goes to the
// site and host that have held least.
const waits = "it waits; who has held least is next"

// table has every bound of a process on attempts that begin: there are no others.
var table = [...]row{
	allPlaces: {
		"all attempts under way", "Bounds.Places", waits,
		"files and memory", "this process has as many requests under way as it can",
	},
	othersPlaces: {
		"attempts at hosts that are not prompt, and all that are older than a second", "three quarters of Places", waits,
		"nothing that hangs gives a place back within its time-out, so places are kept for those that do",
		"requests that hang hold the places of hosts that do not answer quickly",
	},
	allYoung: {
		"attempts that began less than a second ago", "Bounds.Young", waits,
		"with more, a well-behaved load takes more memory and becomes no faster",
		"this process begins no more requests at once",
	},
	othersYoung: {
		"those of them at hosts that are not prompt", "three quarters of Young", waits,
		"as for places: it gives them a second, or hosts that hang would begin with all",
		"this process begins no more requests at hosts that do not answer quickly",
	},
	allComputing: {
		"attempts whose request is not signed yet", "Bounds.Computing; those at hosts that are not prompt three quarters of it", waits,
		"the order of places is that of signatures, too, and a busy processor makes no host look slow",
		"this machine has no processor for one more signature",
	},
	siteShare: {
		"attempts at one registrable domain, beyond the first", "as many as are left free for its class, less a quarter of Places, for prompt hosts an eighth; the same of the young ones", waits,
		"one owner leaves half to others, two leave a third, however many hosts they have; what is kept is for domains that have no place",
		"its domain has its share of requests under way",
	},
	hostWindow: {
		"attempts at one host", "PerHost, and one more with each acceptance, up to PerHostMost; a failure halves it, down to PerHost, the third in a row down to one", waits,
		"small servers have few workers, and a host that hangs should show it with few attempts",
		"its server has as many requests under way as it gets",
	},
	inboxShare: {
		"attempts at one inbox", "three quarters of what its host gets", waits,
		"an inbox that hangs leaves room for those that show that its host is well",
		"its inbox has as many requests under way as it gets",
	},
	inboxAlone: {
		"attempts at an inbox that has accepted nothing since its last outage", "1", waits,
		"if the one fails, the others are spared",
		"one request to its inbox is under way, which shows whether the inbox is back",
	},
	protocolPlaces: {
		"attempts of a protocol, if it has a bound of its own", "Lane.Places, and Lane.PerHost at a host", waits,
		"Sipher's servers are tried for up to 45 s each, and have no circuit",
		"its protocol has as many requests under way as it gets",
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
}
