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

// ahead says when something will happen. Overdue things happen with the next scheduled run.
func ahead(t, now time.Time) string {
	if t.Sub(now) < time.Second {
		return "due now"
	}
	return "in " + span(t.Sub(now))
}

// clock is a time of day, with the date unless that is today.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04")
}

// done are the texts after an action. The address has only their names, so no link can make
// the page show another text.
var done = map[string]string{
	"block":           "The server is blocked. New deliveries to it fail after at most ten seconds; deliveries that waited fail step by step.",
	"unblock":         "The server is no longer blocked. Deliveries that failed meanwhile stay failed.",
	"pause":           "Deliveries to the server are paused: they wait until the pause ends.",
	"resume":          "Deliveries go out again. Waiting deliveries are released step by step.",
	"check":           "The server will be checked within a minute.",
	"limit":           "The rate limit is set.",
	"no-limit":        "The rate limit is removed.",
	"cancel":          "The activity is cancelled: recipients that do not have it yet will not get it.",
	"key":             "The key is created. Publish its public key under its id.",
	"key-deleted":     "The key is deleted.",
	"drop":            "The dead letters are dropped. Their recipients stay dead.",
	"drop-more":       "The first dead letters are dropped. There are more: repeat the action.",
	"forget-activity": "The activity is deleted from fedpost.",
	"forget":          "The server's record is deleted.",
	"test":            "The test event was sent. This page shows what became of it.",
	"webhook-changed": "The webhook is changed.",
	"webhook-deleted": "The webhook is deleted.",
	"retry":           "The dead letters are retried.",
	"again":           "The recipients are retried. Their state changes when a worker takes them.",
	"some":            "The recipients are retried, except those whose activity is no longer stored and those with a retry under way.",
	"unavailable":     "Nothing was retried: the activity is no longer stored, or a retry is under way.",
	"none":            "Nothing matched; nothing was done.",
	"more-failed":     "The first ones are retried, but not all were searched. To retry all, run: fedpost dead retry --failed.",
	"more":            "The first ones are retried. There are more: repeat the action.",
}

// answer is a server's last answer: the text, preceded by the status unless the text has it.
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

// what is the phase or state of an event, for its colour.
func what(kind string) string {
	_, state, _ := strings.Cut(kind, ".")
	if state == "recovered" {
		return "healthy"
	}
	return state
}
