package cost

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// Prices in dollars, us-east-1, as of 2026, and what is free each month for as long as an
// account lives.
// https://aws.amazon.com/api-gateway/pricing/ https://aws.amazon.com/cloudwatch/pricing/
// https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer https://aws.amazon.com/kms/pricing/
const (
	ApiCall      = 3.50e-6
	LogGB        = 0.50
	EgressGB     = 0.09
	MetricMonth  = 0.30
	AlarmMonth   = 0.10 // for each metric that an alarm reads
	Dashboard    = 3.00
	StorageGB    = 0.25
	PITRGB       = 0.20 // point-in-time recovery
	KeyMonth     = 1.00 // and as much for each of the first two yearly rotations
	freeSQS      = 1e6
	freeInvoked  = 1e6
	freeGBSecond = 400_000
	freeLogGB    = 5
	freeEgressGB = 100
	freeMetrics  = 10
	freeAlarms   = 10
	freeStoredGB = 25
)

// Stack is what the template makes whether there is work or not.
type Stack struct {
	Metrics      int // names of metrics that the functions print in a month
	AlarmMetrics int // that the alarms read
	Queues       int // with event sources
	Retention    int // days that records are kept
}

// Line is one line of a bill.
type Line struct {
	What    string
	Dollars float64 // a month
	Free    float64 // of those, what AWS gives for nothing
}

const days, gigabyte = 30, 1e9

// CountWrites is how many writes of counts follow an activity, one of each function, if no
// other is within CountEvery.
const CountWrites, CountEvery = 2, 5

// Bill returns what a load costs a month.
func (s Stack) Bill(l Load) []Line {
	w, n := l.PerActivity(), float64(l.Activities*days)
	const checks = days * 24 * 60
	// Lambda's event sources poll each queue with five long polls of 20 s.
	polls := float64(s.Queues) * 5 * 3 * checks
	requests := n*w.SQS + polls
	const fifo = SQSFIFORequest - SQSRequest // more for each; the ordered queue is one
	ordered := polls / float64(max(1, s.Queues)) * fifo / 1e6
	counts := math.Min(n, days*24*3600/CountEvery) * CountWrites
	stored := n * math.Max(1, w.Writes) * 1000 / gigabyte * float64(s.Retention) / days
	check := Lambda(checkMemory, Calls)
	lambda := n*(w.Enqueue+w.Deliver) + checks*check
	invoked := n*(w.Calls+w.Invocations) + checks
	seconds := (lambda - invoked*Invocation) / GBSecond
	logs := (n*w.Log + checks*LogLambda) / gigabyte
	egress := n * w.Egress / gigabyte
	metrics, alarms := float64(s.Metrics), float64(s.AlarmMetrics)
	if n == 0 {
		metrics = 0 // a metric costs in hours in which it is printed
	}
	free := func(used, given, price float64) float64 { return math.Min(used, given) * price }
	return []Line{
		{"API calls", n * w.Calls * ApiCall, 0},
		{"Lambda", lambda, free(invoked, freeInvoked, Invocation) + free(seconds, freeGBSecond, GBSecond)},
		{"SQS, polls of empty queues too", requests*SQSRequest/1e6 + ordered, free(requests, freeSQS, SQSRequest/1e6)},
		{"DynamoDB writes", (n*w.Writes + counts) * WriteUnit / 1e6, 0},
		{"DynamoDB reads", (n*w.Reads + checks*CheckReads) * ReadUnit / 1e6, 0},
		{"records and their recovery", stored * (StorageGB + PITRGB), free(stored, freeStoredGB, StorageGB)},
		{"logs", logs * LogGB, free(logs, freeLogGB, LogGB)},
		{"egress", egress * EgressGB, free(egress, freeEgressGB, EgressGB)},
		{"metrics", metrics * MetricMonth, free(metrics, freeMetrics, MetricMonth)},
		{"alarms", alarms * AlarmMonth, free(alarms, freeAlarms, AlarmMonth)},
		{"dashboard", Dashboard, Dashboard},
		{"sealing key, rotated twice", 3 * KeyMonth, 0},
	}
}

// Sum returns a bill's sum, and what is left of it without what AWS gives for nothing.
func Sum(bill []Line) (sum, net float64) {
	for _, l := range bill {
		sum += l.Dollars
		net += l.Dollars - l.Free
	}
	return sum, net
}

// Rows are bills side by side, one column for each, with a head and their sums.
func Rows(names []string, bills [][]Line) [][]string {
	rows := [][]string{append([]string{"dollars a month"}, names...)}
	for i, first := range bills[0] {
		row := []string{first.What}
		for _, bill := range bills {
			row = append(row, fmt.Sprintf("%.2f", bill[i].Dollars))
		}
		rows = append(rows, row)
	}
	sums, nets := []string{"sum"}, []string{"sum, less what is always free"}
	for _, bill := range bills {
		sum, net := Sum(bill)
		sums, nets = append(sums, fmt.Sprintf("%.2f", sum)), append(nets, fmt.Sprintf("%.2f", net))
	}
	return append(rows, sums, nets)
}

// Table writes rows for a terminal.
func Table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t\n", strings.Join(row, "\t"))
	}
	w.Flush() // a strings.Builder takes everything
	return b.String()
}

// Markdown writes rows for a document.
func Markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}
