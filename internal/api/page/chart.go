package page

import (
	"fmt"
	"time"

	"fedpost/client"
)

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
