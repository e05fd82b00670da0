package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
	"fedpost/internal/engine/queue"
)

// overview is the first page: a line for each problem with a link to act on it, then the
// numbers.
type overview struct {
	Known    bool // false: the table or a queue cannot be read
	Stats    client.Stats
	Problems []problemLine
	Queues   []queueRow
	Waiting  int             // messages on queues
	Hosts    []client.Hosted // some that are down
	Sick     int             // servers in trouble
	Dead     []client.DeadLetter
	MoreDead bool
	Hour     []chart
	Day      []chart
	// NoHistory says why there are no charts.
	NoHistory string
	Since     time.Time
	LastHour  map[string]int
}

// problemLine is something that is wrong, the worst first.
type problemLine struct {
	Bad       bool // somebody has to act; false: somebody should look
	Text      string
	Do, Where string
}

type queueRow struct {
	Name string
	client.QueueDepth
	Age  time.Duration
	Dead bool
}

var queueOrder = []queue.Name{queue.High, queue.Normal, queue.Low, queue.Ordered, queue.Dead, queue.DeadOrdered}

const shownServers = 8

func (p *Page) overview(v *visit) error {
	o := overview{Known: true, LastHour: map[string]int{}}
	if err := o.history(v); err != nil {
		return err
	}
	if err := o.read(v); err != nil {
		problem, ok := refusedWith(http.StatusServiceUnavailable, err)
		if !ok {
			return err
		}
		o.Known = false
		o.Problems = []problemLine{{Bad: true, Text: "fedpost cannot read its table or a queue, and accepts and delivers nothing until it can. The log has the cause: a full disk, a missing permission, or a table that cannot be reached. The API answered: " + problem.Detail}}
	} else {
		o.queues()
		o.diagnose()
	}
	if err := o.health(v); err != nil {
		return err
	}
	title := "All is well"
	if n := len(o.Problems); n == 1 {
		title = "1 problem"
	} else if n > 1 {
		title = fmt.Sprintf("%d problems", n)
	}
	return v.show("overview", view{Title: title, Nav: "overview", Refresh: 10, Data: o})
}

// read reads what is in the table and the queues.
func (o *overview) read(v *visit) (err error) {
	if o.Stats, err = v.page.lately.Stats(v.r.Context(), v.api); err != nil {
		return err
	}
	if err := o.details(v); err != nil {
		return err
	}
	dead, err := v.someDead()
	if err != nil {
		return err
	}
	o.Dead, o.MoreDead = dead.DeadLetters, dead.NextCursor != ""
	return nil
}

// health adds the problem that nothing can be written. It replaces the problem that nothing
// can be read.
func (o *overview) health(v *visit) error {
	_, err := v.api.Health(v.r.Context())
	if problem, ok := refusedWith(http.StatusServiceUnavailable, err); ok {
		if !o.Known {
			o.Problems = nil
		}
		o.Problems = append([]problemLine{{Bad: true, Text: problem.Detail}}, o.Problems...)
		return nil
	}
	return err
}

// history reads counts from the process's memory, which works also while the table is down.
func (o *overview) history(v *visit) error {
	hour, err := v.api.History(v.r.Context(), "hour")
	if problem, ok := refusedWith(http.StatusNotFound, err); ok {
		o.NoHistory = problem.Detail
		return nil
	}
	day, other := v.api.History(v.r.Context(), "day")
	if err = cmp.Or(err, other); err != nil {
		return err
	}
	o.Since = hour.Since
	o.Hour = []chart{draw("hour-well", "Delivered", hour, wellKinds()...), draw("hour-ill", "Not delivered at once", hour, illKinds()...)}
	o.Day = []chart{draw("day-well", "Delivered", day, wellKinds()...), draw("day-ill", "Not delivered at once", day, illKinds()...)}
	for name, numbers := range hour.Counts {
		for _, n := range numbers {
			o.LastHour[name] += n
		}
	}
	return nil
}

// details reads the servers that are down, as the statistics do not have their next check.
func (o *overview) details(v *visit) error {
	worst := o.Stats.Unhealthy[:min(len(o.Stats.Unhealthy), shownServers)]
	all := make([]client.Server, len(worst))
	g, _ := errgroup.WithContext(v.r.Context())
	for i, s := range worst {
		g.Go(func() error { return v.get(serverPath(s.Server), url.Values{"waiting": {"true"}}, &all[i]) })
	}
	for _, phase := range []string{"unhealthy", "half-open", "exhausted", "inbox"} {
		o.Sick += o.Stats.Servers[phase]
	}
	err := g.Wait()
	o.Hosts = client.ByHost(all)
	return err
}

func (o *overview) queues() {
	for _, name := range queueOrder {
		d, ok := o.Stats.Queues[string(name)]
		if !ok {
			continue
		}
		r := queueRow{Name: string(name), QueueDepth: d, Dead: name == queue.Dead || name == queue.DeadOrdered}
		if d.Oldest != nil {
			r.Age = time.Duration(*d.Oldest) * time.Second
		}
		if !r.Dead {
			o.Waiting += d.Visible
		}
		o.Queues = append(o.Queues, r)
	}
}

// Ages of a queue's oldest message that are a problem. Normally a message is received within
// a second; the alarms of template.yaml begin at half an hour.
const (
	lateAge  = 5 * time.Minute
	stuckAge = 30 * time.Minute
)

// diagnose lists what is wrong.
func (o *overview) diagnose() {
	var worst, others []problemLine
	add := func(bad bool, do, where, format string, args ...any) {
		line := problemLine{bad, fmt.Sprintf(format, args...), do, where}
		if bad {
			worst = append(worst, line)
		} else {
			others = append(others, line)
		}
	}
	for _, q := range o.Queues {
		switch {
		case !q.Dead && q.Age >= stuckAge:
			add(true, "See the queues", "#queues", "The oldest message in the queue %s has waited for %s: nothing is being processed.", q.Name, span(q.Age))
		case !q.Dead && q.Age >= lateAge:
			add(false, "See the queues", "#queues", "The oldest message in the queue %s has waited for %s.", q.Name, span(q.Age))
		}
	}
	tried, ill := 0, 0
	for _, name := range []string{"delivered", "retrying", "failed", "dead"} {
		tried += o.LastHour[name]
	}
	ill = tried - o.LastHour["delivered"]
	if tried >= 20 && 2*ill > tried {
		add(true, "See the servers", "/servers", "%d %% of the last hour's deliveries failed or wait (%s of %s). If many servers are affected, the cause is on this side: network, clock or signing key.",
			100*ill/tried, thousands(ill), thousands(tried))
	}
	if n := o.Stats.Counts["unrecorded"]; n > 0 {
		add(true, "", "", "%s activities were accepted today while the table was down. They are queued; the log has the table's error.", thousands(n))
	}
	if n := o.Stats.Counts["deduplicationFallbacks"]; n > 0 {
		add(false, "", "", "%s calls today were accepted without a check of their deduplication key, because the table could not be written.", thousands(n))
	}
	if rows := o.Stats.Outbox; rows != nil {
		if age := time.Duration(rows.Oldest) * time.Second; age >= lateAge {
			add(age >= stuckAge, "", "", "The oldest row of the outbox has waited for %s. The log has the cause.", span(age))
		}
		if rows.Refused > 0 {
			add(true, "", "", "Refused rows of the outbox: %s. To see why, run: fedpost outbox list --state refused.", thousands(rows.Refused))
		}
	}
	if n := o.Stats.Servers["exhausted"]; n > 0 {
		add(true, "Decide about them", "/servers?phase=exhausted", "%s been down for the whole give-up time: the deliveries that waited for %s are dead.", servers(n, "has", "have"), pronoun(n))
	}
	if n := o.Sick - o.Stats.Servers["exhausted"]; n > 0 {
		add(false, "See which, and why", "/servers", "%s down: deliveries to %s wait until a check succeeds.", servers(n, "is", "are"), pronoun(n))
	}
	if n := o.Stats.Webhooks[client.WebhookDisabled]; n > 0 {
		add(true, "See the webhooks", "/webhooks", "Webhooks disabled after 5 days of failures: %s. Your application gets no events from them.", thousands(n))
	}
	if n := o.Stats.Webhooks[client.WebhookFailing]; n > 0 {
		add(false, "See the webhooks", "/webhooks", "Failing webhooks: %s. Their events wait.", thousands(n))
	}
	if n := len(o.Dead); n > 0 {
		text := thousands(n)
		if o.MoreDead {
			text = "More than " + text
		}
		add(false, "See them by server", "/dead", "%s deliveries are dead and can be retried.", text)
	}
	o.Problems = append(worst, others...)
}

func servers(n int, one, many string) string {
	if n == 1 {
		return "1 server " + one
	}
	return thousands(n) + " servers " + many
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// chart is a bar chart of a history, drawn as SVG without script and inline styles.
type chart struct {
	ID, Title     string
	Width, Height int
	Bars          []bar
	Known         int // x where counting began; there is no data to its left
	Most          int // the highest bar stands for this
	Ticks         []tick
	Kinds         []kind
	Rows          []row
	Step          time.Duration
}

// bar is a piece of a column: a count of one kind in one step.
type bar struct {
	X, Y, Width, Height int
	Kind, Title         string
}

type tick struct {
	X    int
	Text string
}

// kind is an entry of the legend.
type kind struct {
	Name, Text string
	Sum        int
}

// row is a step in the table of numbers beside the chart.
type row struct {
	At     time.Time
	Counts []int
}

// Measures of a chart in its own units; the style stretches it.
const (
	chartHeight = 120
	chartWidth  = 960
)

// draw makes a chart of some counts of a history, stacked in their order.
func draw(id, title string, h client.History, kinds ...kind) chart {
	steps := chartSteps(h)
	c := chart{ID: id, Title: title, Width: chartWidth, Height: chartHeight, Step: time.Duration(h.StepSeconds) * time.Second}
	for i := range steps {
		sum := 0
		for _, k := range kinds {
			sum += at(h, k.Name, i)
		}
		c.Most = max(c.Most, sum)
	}
	wide := chartWidth / max(steps, 1)
	for i := range steps {
		begin := h.From.Add(time.Duration(i) * c.Step)
		if begin.Add(c.Step).Before(h.Since) {
			c.Known = (i + 1) * wide
		}
		r, bottom := row{At: begin}, chartHeight
		any := 0
		for k := range kinds {
			n := at(h, kinds[k].Name, i)
			kinds[k].Sum += n
			r.Counts = append(r.Counts, n)
			if any += n; n == 0 {
				continue
			}
			// A small count must be visible, too.
			high := max(2, n*chartHeight/max(c.Most, 1))
			bottom -= high
			c.Bars = append(c.Bars, bar{
				X: i * wide, Y: max(0, bottom), Width: wide - 2, Height: high, Kind: kinds[k].Name,
				Title: fmt.Sprintf("%s: %s %s", begin.UTC().Format("15:04"), thousands(n), kinds[k].Text),
			})
		}
		if any > 0 {
			c.Rows = append(c.Rows, r)
		}
		if i%(steps/4) == 0 {
			c.Ticks = append(c.Ticks, tick{X: i * wide, Text: begin.UTC().Format("15:04")})
		}
	}
	c.Kinds = kinds
	return c
}

func (c chart) Total() int {
	sum := 0
	for _, k := range c.Kinds {
		sum += k.Sum
	}
	return sum
}

// chartSteps is how many steps a history has. An empty one is of an hour or a day.
func chartSteps(h client.History) int {
	for _, numbers := range h.Counts {
		return len(numbers)
	}
	if h.StepSeconds == 60 {
		return 60
	}
	return 96
}

// at is a number of a history; a server of another version may send fewer.
func at(h client.History, name string, i int) int {
	if numbers := h.Counts[name]; i < len(numbers) {
		return max(0, numbers[i])
	}
	return 0
}

// wellKinds and illKinds are shown in separate charts: next to the successes, the failures
// would be too small to see.
func wellKinds() []kind { return []kind{{Name: "delivered", Text: "delivered"}} }

func illKinds() []kind {
	return []kind{
		{Name: "retrying", Text: "to be retried"},
		{Name: "parked", Text: "waiting for the server"},
		{Name: "failed", Text: "refused for good"},
		{Name: "dead", Text: "dead"},
	}
}
