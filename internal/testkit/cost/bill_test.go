package cost_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpost/internal/enqueue"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/template"
)

// The numbers of the installation that TestBill prints the costs of.
var (
	activities = flag.Int("cost.activities", 1000, "activities a day")
	recipients = flag.Int("cost.recipients", 300, "recipients of each, on as many hosts")
	slow       = flag.Float64("cost.slow", 0.1, "share of recipients whose hosts answer after up to 4.7 s")
	dead       = flag.Float64("cost.dead", 0.02, "share of recipients whose hosts are down for good")
	memory     = flag.Int("cost.memory", 512, "DeliverMemory, MB")
	body       = flag.Int("cost.body", 1700, "bytes of an activity")
	info       = flag.Bool("cost.info", false, "LogLevel is INFO: a line for each delivery")
)

// metricNames is how many metrics the functions print in a month in which everything
// happens once: five of package metrics, those that Counted is called with by package
// deliver (CameBack, Dead, Parked, Rejected) and healthcheck (Exhausted, Probes,
// Released), and three of the API. WebhooksFailing is printed only while a webhook fails.
const metricNames = 15

func stack(t *testing.T) cost.Stack {
	t.Helper()
	tmpl, err := template.Load("../../../template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := cost.Stack{Metrics: metricNames, Retention: int(enqueue.DefaultRetention / (24 * time.Hour))}
	for _, a := range tmpl.Alarms() {
		metrics, err := a.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		s.AlarmMetrics += len(metrics)
	}
	for _, r := range tmpl.Resources {
		if r.Type == "AWS::Lambda::EventSourceMapping" {
			s.Queues++
		}
	}
	return s
}

// TestBill prints what an installation costs a month, beside one that is idle, one with
// 256 MB and one that logs each delivery. make cost names the numbers.
func TestBill(t *testing.T) {
	s := stack(t)
	yours := cost.Load{
		Activities: *activities, Recipients: *recipients, Slow: *slow, Dead: *dead, Memory: *memory, Body: *body, EachDelivery: *info,
	}
	idle, small, chatty := yours, yours, yours
	idle.Activities, small.Memory, chatty.EachDelivery = 0, 256, true
	if yours.Recipients < 1 || yours.Activities < 0 || yours.Slow < 0 || yours.Dead < 0 || yours.Slow > 1 || yours.Dead > 1 || yours.Memory < 128 {
		t.Fatalf("%+v: recipients are 1 at least, shares 0 to 1, memory 128 at least", yours)
	}
	bill := s.Bill(yours)
	sum, _ := cost.Sum(bill)
	n, each := 30*yours.Activities*yours.Recipients, ""
	if n > 0 {
		each = fmt.Sprintf(", $%.2f per million", sum/float64(n)*1e6)
	}
	t.Logf("%d activities a day to %d recipients each, %g %% slow, %g %% dead, %d MB: %d deliveries a month%s\n%s",
		yours.Activities, yours.Recipients, 100*yours.Slow, 100*yours.Dead, yours.Memory, n, each,
		cost.Table(cost.Rows([]string{"yours", "idle", "256 MB", "LogLevel INFO"}, [][]cost.Line{bill, s.Bill(idle), s.Bill(small), s.Bill(chatty)})))
	if s.AlarmMetrics < 10 || s.Queues != 4 {
		t.Errorf("the template has %d metrics in alarms and %d queues with event sources", s.AlarmMetrics, s.Queues)
	}
}

// TestCostsAreDocumented: the table of docs/costs.md is what the model says.
func TestCostsAreDocumented(t *testing.T) {
	s := stack(t)
	var names []string
	var bills [][]cost.Line
	for _, l := range []struct {
		name                   string
		activities, recipients int
	}{
		{"idle", 0, 1}, {"100 a day to 20", 100, 20}, {"1,000 a day to 300", 1000, 300}, {"10,000 a day to 1,000", 10_000, 1000}, {"100,000 a day to 1", 100_000, 1},
	} {
		names = append(names, l.name)
		bills = append(bills, s.Bill(cost.Load{
			Activities: l.activities, Recipients: l.recipients, Slow: 0.1, Dead: 0.02, Memory: int(defaults(t).Memory), Body: 1700,
		}))
	}
	documented(t, "../../../docs/costs.md", map[string]string{"month": cost.Markdown(cost.Rows(names, bills))})
}

func of(bill []cost.Line, what string) cost.Line {
	for _, l := range bill {
		if strings.HasPrefix(l.What, what) {
			return l
		}
	}
	panic(fmt.Sprintf("the bill has no line %q", what))
}

// TestABillGrowsWithItsLoad: each number moves the lines that it is about.
func TestABillGrowsWithItsLoad(t *testing.T) {
	s := stack(t)
	base := cost.Load{Activities: 1000, Recipients: 300, Memory: 512, Body: 1700}
	for _, c := range []struct {
		what   string
		change func(*cost.Load)
		lines  string
	}{
		{"activities", func(l *cost.Load) { l.Activities *= 2 }, "API calls, Lambda, SQS, DynamoDB writes, DynamoDB reads, records, logs, egress"},
		{"recipients", func(l *cost.Load) { l.Recipients *= 2 }, "Lambda, SQS, DynamoDB writes, DynamoDB reads, records, egress"},
		{"slow hosts", func(l *cost.Load) { l.Slow = 0.1 }, "Lambda, DynamoDB writes"},
		{"dead hosts", func(l *cost.Load) { l.Dead = 0.1 }, "SQS, DynamoDB writes, DynamoDB reads, logs"},
		{"memory", func(l *cost.Load) { l.Memory, l.Slow = 2048, 0.1 }, "Lambda"},
		{"body", func(l *cost.Load) { l.Body *= 2 }, "egress"},
		{"a line for each delivery", func(l *cost.Load) { l.EachDelivery = true }, "logs"},
	} {
		changed := base
		c.change(&changed)
		for what := range strings.SplitSeq(c.lines, ", ") {
			if before, after := of(s.Bill(base), what), of(s.Bill(changed), what); after.Dollars <= before.Dollars {
				t.Errorf("with more %s the line %s is $%.2f, before $%.2f", c.what, what, after.Dollars, before.Dollars)
			}
		}
	}
	for _, l := range s.Bill(base) {
		if l.Free > l.Dollars+1e-9 || l.Dollars < 0 {
			t.Errorf("a line of the bill is %+v; want the free part within the whole", l)
		}
	}
}
