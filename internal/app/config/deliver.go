package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"fedpost/internal/protocol/retry"
	"fedpost/internal/servers/circuit"
)

// Retry says when a failed ActivityPub delivery is retried. Sipher defines its own retries.
type Retry struct {
	Policy string         `env:"RETRY_POLICY" envDefault:"activitypub" help:"activitypub (five tries, then waits up to 7 days for the server), ldp (four tries, of network errors only) or sipher (five tries); each setting below replaces one of its values"`
	Tries  *int           `env:"RETRY_TRIES" min:"1" max:"20" help:"the number of quick tries, the first included: 1 to 20"`
	First  *time.Duration `env:"RETRY_FIRST_WAIT" max:"15m" help:"the wait after the first failure: up to 15m"`
	Factor *float64       `env:"RETRY_FACTOR" min:"1" max:"10" help:"the factor by which each wait is longer than the one before: 1 to 10"`
	Jitter *float64       `env:"RETRY_JITTER" min:"0" max:"0.9" help:"the share by which a wait is longer or shorter at random: 0 to 0.9"`
	Park   *bool          `env:"RETRY_PARK" help:"true to let deliveries wait for their server after the quick tries, false to give up"`
	GiveUp *time.Duration `env:"RETRY_GIVE_UP" min:"1m" max:"90d" help:"the age at which a delivery that waits for its server is dead: 1m to 90d"`
}

func (c Retry) Build() (retry.Policy, error) {
	p, err := retry.Preset(c.Policy)
	if err != nil {
		return retry.Policy{}, err
	}
	replace(&p.Tries, c.Tries)
	replace(&p.First, c.First)
	replace(&p.Factor, c.Factor)
	replace(&p.Jitter, c.Jitter)
	replace(&p.GiveUp, c.GiveUp)
	if replace(&p.Park, c.Park); p.Park {
		p.Circuit = true // only the circuit releases parked deliveries
	}
	return p, p.Validate()
}

func replace[T any](value, with *T) {
	if with != nil {
		*value = *with
	}
}

func (c *Retry) check(r *report) {
	r.oneOf("RETRY_POLICY", c.Policy, retry.Names...)
	if _, err := c.Build(); err != nil && len(r.faults) == 0 {
		r.add("RETRY_POLICY", "and the settings that change it contradict each other: "+err.Error(), "change one of them")
	}
}

// Circuit says when a server counts as down, and how its recovery is detected.
type Circuit struct {
	Streak   int           `env:"CIRCUIT_STREAK" min:"1" max:"1000" help:"how many failures in a row open a server's circuit: 1 to 1000"`
	Share    float64       `env:"CIRCUIT_SHARE" min:"0.01" max:"1" help:"the share of failures in the window that opens a server's circuit: 0.01 to 1"`
	Sample   int           `env:"CIRCUIT_SAMPLE" min:"1" max:"10000" help:"the fewest deliveries in the window for CIRCUIT_SHARE to count: 1 to 10000"`
	Window   time.Duration `env:"CIRCUIT_WINDOW" min:"10s" max:"1h" help:"the window in which failures are counted: 10s to 1h"`
	First    time.Duration `env:"CHECK_FIRST" min:"1s" max:"1d" help:"the wait between the first check of a server and the second; the first comes a minute after the circuit opened, or sooner if this is shorter: 1s to 1d"`
	Step     time.Duration `env:"CHECK_STEP" min:"1s" max:"1d" help:"how much longer each next wait is than the one before: 1s to 1d"`
	Slow     time.Duration `env:"CHECK_SLOW" min:"1s" max:"7d" help:"the wait between checks after the fifth, while something is parked: 1s to 7d"`
	Ramp     time.Duration `env:"RELEASE_EVERY" min:"1s" max:"1h" help:"the time between the steps that release parked deliveries to a server that is back: 1s to 1h"`
	Revive   time.Duration `env:"REVIVE_WITHIN" max:"60d" help:"a dead delivery is sent again if its server, which was down, is back within this time of its death: up to 60d; 0: never. No effect with the policies sipher and ldp: they give up after a few tries, and do not wait for a server"`
	MaxPause time.Duration `env:"RETRY_AFTER_MAX" min:"1m" max:"7d" help:"the longest pause that a server can ask for (Retry-After): 1m to 7d"`
}

// Rules returns the circuit's rules, for deliveries that are given up after giveUp.
func (c Circuit) Rules(giveUp time.Duration) circuit.Rules {
	return circuit.Rules{
		OpenAfter: c.Streak, OpenShare: c.Share, OpenSample: c.Sample, Window: c.Window,
		CheckFirst: c.First, CheckStep: c.Step, CheckSlow: c.Slow, GiveUp: giveUp,
		RampEvery: c.Ramp, MaxPause: c.MaxPause, Revive: c.Revive,
	}.Complete()
}

// Outbound says how requests to other servers are made.
type Outbound struct {
	Timeout   time.Duration `env:"DELIVERY_TIMEOUT" min:"1s" max:"30s" help:"how long one request to an inbox may take: 1s to 30s"`
	UserAgent string        `env:"USER_AGENT" envDefault:"fedpost/1" help:"the User-Agent of all requests, best with a page about you: fedpost/1 (+https://social.example/about)"`
	Allow     Prefixes      `env:"OUTBOUND_ALLOW" help:"private networks that may be reached, as CIDR prefixes separated by commas, such as 10.1.0.0/16"`
	PlainHTTP bool          `env:"OUTBOUND_PLAIN_HTTP" envDefault:"false" help:"true to deliver to http:// inboxes too"`
	Proxy     Proxy         `env:"OUTBOUND_PROXY" secret:"true" help:"a proxy for all requests to other servers except .onion hosts, as http://USER:PASSWORD@HOST:PORT or socks5://HOST:PORT; names are resolved here, and the proxy gets addresses"`
	Onion     Proxy         `env:"OUTBOUND_ONION_PROXY" secret:"true" help:"the SOCKS5 proxy for .onion hosts, such as Tor's socks5://127.0.0.1:9050; without it they are refused"`
}

func (o *Outbound) check(r *report) {
	if strings.ContainsFunc(o.UserAgent, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.add("USER_AGENT", "has a control character in it", "set it to one line of text")
	}
	if o.Onion.URL != nil && o.Onion.Scheme == "http" {
		r.add("OUTBOUND_ONION_PROXY", "is an HTTP proxy", "set it to one of SOCKS5, as socks5://HOST:PORT")
	}
}

// Proxy is the URL of a proxy; nil: none.
type Proxy struct{ *url.URL }

func (p *Proxy) UnmarshalText(b []byte) error {
	u, err := url.Parse(string(b))
	if err != nil || u.Scheme != "http" && u.Scheme != "socks5" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.New("neither http://HOST:PORT nor socks5://HOST:PORT")
	}
	p.URL = u
	return nil
}

// Prefixes is a list of networks.
type Prefixes []netip.Prefix

func (p *Prefixes) UnmarshalText(b []byte) error {
	for s := range strings.SplitSeq(string(b), ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			return fmt.Errorf("not a list of CIDR prefixes because of %s", s)
		}
		*p = append(*p, prefix)
	}
	return nil
}

// Events says how long events are kept.
type Events struct {
	Retention time.Duration `env:"EVENT_RETENTION" min:"1d" max:"365d" help:"how long events can be read: 1d to 365d"`
}

// EventBus is where the scheduled function puts events on AWS.
type EventBus struct {
	Name string `env:"EVENT_BUS_NAME" help:"the name of the EventBridge bus that gets all events, besides the feed and webhooks; empty for none"`
}

// Concurrency bounds what one invocation does at a time.
type Concurrency struct {
	Deliveries int `env:"DELIVERY_CONCURRENCY" min:"8" max:"1000" help:"on Lambda, how many requests one invocation has under way at a time, and as many more to further domains; up has 768 for each queue: 8 to 1000"`
	PerHost    int `env:"DELIVERY_CONCURRENCY_PER_HOST" min:"1" max:"100" help:"how many requests go at a time to one server that accepts; in up, forty times as many from each queue, at most 384: 1 to 100"`
	Probes     int `env:"PROBE_CONCURRENCY" min:"1" max:"256" help:"how many servers the health check probes at a time: 1 to 256"`
}

func (c *Concurrency) check(r *report) {
	if c.PerHost > c.Deliveries {
		r.add("DELIVERY_CONCURRENCY_PER_HOST", "is more than DELIVERY_CONCURRENCY", "set it to at most that")
	}
}
