package config

import (
	"net/netip"
	"strings"
	"time"
)

// Retry is when a failed delivery is tried again. The policy gives the values;
// each of the others, if set, replaces one of them.
type Retry struct {
	Policy string        `env:"RETRY_POLICY" envDefault:"activitypub" help:"activitypub (five tries, then it waits up to 7 days for its server) or ldp (four tries, network errors only)"`
	Tries  int           `env:"RETRY_TRIES" envDefault:"0" min:"0" max:"20" help:"the number of quick tries, the first included: 1 to 20; 0 leaves it to the policy"`
	First  time.Duration `env:"RETRY_FIRST_WAIT" envDefault:"0s" min:"0s" max:"15m" help:"the wait after the first failure, up to 15m; 0s leaves it to the policy"`
	Factor float64       `env:"RETRY_FACTOR" envDefault:"0" min:"0" max:"10" help:"what each next wait is multiplied by: 1 to 10; 0 leaves it to the policy"`
	GiveUp time.Duration `env:"RETRY_GIVE_UP" envDefault:"0s" min:"0s" max:"90d" help:"the age at which a delivery that waits for its server is dead, up to 90d; 0s leaves it to the policy"`
}

func (c *Retry) check(r *report) {
	r.oneOf("RETRY_POLICY", c.Policy, "activitypub", "ldp")
	if c.Factor > 0 && c.Factor < 1 {
		r.add("RETRY_FACTOR", "is below 1, so waits would shrink", "set it to 1 or more, or to 0 to leave it to the policy")
	}
}

// Circuit is when a server counts as down.
type Circuit struct {
	Streak      int           `env:"CIRCUIT_STREAK" envDefault:"5" min:"1" max:"1000" help:"how many failures in a row open a server's circuit: 1 to 1000"`
	Ratio       float64       `env:"CIRCUIT_RATIO" envDefault:"0.7" min:"0.01" max:"1" help:"the share of failures in the window that opens a server's circuit: 0.01 to 1"`
	Least       int           `env:"CIRCUIT_LEAST" envDefault:"10" min:"1" max:"10000" help:"how many deliveries in the window are needed to judge by their share: 1 to 10000"`
	Window      time.Duration `env:"CIRCUIT_WINDOW" envDefault:"5m" min:"10s" max:"1h" help:"the window in which failures are counted: 10s to 1h"`
	LongestWait time.Duration `env:"RETRY_AFTER_MAX" envDefault:"24h" min:"1m" max:"7d" help:"the longest Retry-After that is believed: 1m to 7d"`
}

// Outbound is how requests to strangers are made.
type Outbound struct {
	Timeout   time.Duration `env:"DELIVERY_TIMEOUT" envDefault:"15s" min:"1s" max:"30s" help:"how long one request to an inbox may take: 1s to 30s"`
	UserAgent string        `env:"USER_AGENT" envDefault:"fedpost/1" help:"the User-Agent of all requests, best with a page that says who you are: fedpost/1 (+https://social.example/about)"`
	Allow     Prefixes      `env:"OUTBOUND_ALLOW" help:"networks that may be reached although they are private, as CIDR prefixes with commas between them, such as 10.1.0.0/16"`
	PlainHTTP bool          `env:"OUTBOUND_PLAIN_HTTP" envDefault:"false" help:"true to deliver to http:// inboxes too"`
}

func (o *Outbound) check(r *report) {
	if strings.ContainsFunc(o.UserAgent, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.add("USER_AGENT", "has a control character in it", "set it to one line of text")
	}
}

// Prefixes is a list of networks.
type Prefixes []netip.Prefix

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Prefixes) UnmarshalText(b []byte) error {
	for s := range strings.SplitSeq(string(b), ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return notPrefix(s)
		}
		*p = append(*p, prefix)
	}
	return nil
}

type notPrefix string

func (e notPrefix) Error() string { return "not a list of CIDR prefixes because of " + string(e) }

// Concurrency is how much one invocation does at a time.
type Concurrency struct {
	Deliveries int `env:"DELIVERY_CONCURRENCY" envDefault:"128" min:"8" max:"1000" help:"how many requests one invocation has under way at a time: 8 to 1000"`
	PerHost    int `env:"DELIVERY_CONCURRENCY_PER_HOST" envDefault:"8" min:"1" max:"100" help:"how many of them to one server: 1 to 100"`
	Probes     int `env:"PROBE_CONCURRENCY" envDefault:"3" min:"1" max:"100" help:"how many servers the health check probes at a time: 1 to 100"`
}

func (c *Concurrency) check(r *report) {
	if c.PerHost > c.Deliveries {
		r.add("DELIVERY_CONCURRENCY_PER_HOST", "is more than DELIVERY_CONCURRENCY", "set it to at most that")
	}
}
