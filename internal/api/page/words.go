package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// thousands writes a number in groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	first := len(s) % 3
	if n < 0 {
		return "-" + thousands(-n)
	}
	out := s[:first]
	for ; first < len(s); first += 3 {
		if out != "" {
			out += "\u202f"
		}
		out += s[first : first+3]
	}
	return out
}

// span is a duration in the two largest units that matter.
func span(d time.Duration) string {
	d = d.Abs().Round(time.Second)
	days, hours, minutes, seconds := int(d/(24*time.Hour)), int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0 && hours > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case days > 0:
		return fmt.Sprintf("%d d", days)
	case hours > 0 && minutes > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case hours > 0:
		return fmt.Sprintf("%d h", hours)
	case minutes > 0:
		return fmt.Sprintf("%d min", minutes)
	}
	return fmt.Sprintf("%d s", seconds)
}

func ago(t, now time.Time) string {
	if now.Sub(t) < time.Second {
		return "just now"
	}
	return span(now.Sub(t)) + " ago"
}

// ahead says when something will happen; what is overdue happens with the next run of the
// schedule.
func ahead(t, now time.Time) string {
	if t.Sub(now) < time.Second {
		return "due now"
	}
	return "in " + span(t.Sub(now))
}

// clock is a time of day, with the date if that is another.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// done is what is said after an action. The address names it, so that no link can make the
// page say something else.
var done = map[string]string{
	"block":           "The server is blocked. Deliveries to it fail within ten seconds, and what waited for it is ended step by step.",
	"unblock":         "The server is not blocked any more. What failed meanwhile stays failed.",
	"pause":           "Deliveries to the server are paused. They wait.",
	"resume":          "Deliveries go on: what waits is released step by step.",
	"check":           "The server is probed within a minute.",
	"limit":           "The rate limit is set.",
	"no-limit":        "The rate limit is lifted.",
	"cancel":          "The activity is cancelled: who does not have it yet will not get it.",
	"key":             "The key is made. Publish its public half under its id.",
	"key-deleted":     "The key is deleted.",
	"drop":            "They are dropped. Their recipients stay dead.",
	"drop-more":       "The first of them are dropped. There are more: repeat it.",
	"forget-activity": "The activity is forgotten.",
	"forget":          "What was recorded of the server is forgotten.",
	"test":            "The test event was sent: this is what became of it.",
	"webhook-changed": "The webhook is changed.",
	"webhook-deleted": "The webhook is deleted.",
	"retry":           "They are sent again, with fresh tries.",
	"again":           "They are tried again: their state changes as workers take them.",
	"some":            "They are tried again, but for those of which nothing is kept to send, and those that an earlier retry has under way.",
	"unavailable":     "Nothing was tried again: nothing is kept to send, or an earlier retry has them under way.",
	"none":            "Nothing matched, so nothing was done.",
	"more-failed":     "The first of them are sent again, and the search for others is not over: fedpost dead retry --failed goes through all.",
	"more":            "The first of them are sent again. There are more: repeat it.",
}

// answer is what a server answered last, with its status once.
func answer(status int, text string) string {
	text = clean(text)
	number := strconv.Itoa(status)
	switch {
	case status == 0 || strings.Contains(text, number):
		return text
	case text == "":
		return number
	}
	return number + " " + text
}

// what is the phase or state that an event is about, for its colour.
func what(kind string) string {
	_, state, _ := strings.Cut(kind, ".")
	if state == "recovered" {
		return "healthy"
	}
	return state
}
