package config

import (
	"strings"
	"time"

	"fedpost/internal/activity"
)

// Deduplication says how a repeated request is recognized.
type Deduplication struct {
	Fallback string        `env:"DEDUPLICATION_FALLBACK" envDefault:"open" help:"open, to accept a request whose deduplication key cannot be recorded, or closed, to refuse it"`
	TTL      time.Duration `env:"DEDUPLICATION_TTL" min:"1s" max:"30d" help:"how long a deduplication key is remembered if the call does not say; on FIFO queues 5 minutes, except for a call with a delay: 1s to 30d"`
	Prefix   string        `env:"DEDUPLICATION_PREFIX" help:"the prefix of deduplication markers, one for each installation that shares the table: up to 64 letters, digits, - and _"`
}

func (d *Deduplication) check(r *report) {
	r.oneOf("DEDUPLICATION_FALLBACK", d.Fallback, "open", "closed")
	r.token("DEDUPLICATION_PREFIX", d.Prefix, 64)
}

// Limits bound what one request may ask for.
type Limits struct {
	ActivityBytes int           `env:"MAX_ACTIVITY_BYTES" min:"1024" max:"307200" help:"the size of the largest activity, in bytes: 1024 to 307200"`
	Recipients    int           `env:"MAX_RECIPIENTS" min:"1" max:"100000" help:"the most inboxes of one activity, after recipients are joined by shared inbox: 1 to 100000"`
	Batch         int           `env:"MAX_BATCH" min:"1" max:"100" help:"the most activities of one batch: 1 to 100"`
	Delay         time.Duration `env:"MAX_DELAY" min:"0s" max:"365d" help:"the longest delay of an activity: 0s to 365d"`
	Retention     time.Duration `env:"RECORD_RETENTION" min:"1d" max:"365d" help:"how long records of activities and their recipients are kept: 1d to 365d"`
}

// Priorities choose the queue of an activity whose request names no priority.
type Priorities struct {
	High    Words  `env:"PRIORITY_HIGH_TYPES" envDefault:"Delete,Undo,Block,Flag,Accept,Reject,Follow" help:"the types of activities that go to the high queue, separated by commas"`
	Low     Words  `env:"PRIORITY_LOW_TYPES" envDefault:"Like,Dislike,EmojiReact,View,Listen,Read" help:"the types of activities that go to the low queue, separated by commas; the Delete of an account always goes there"`
	Default string `env:"PRIORITY_DEFAULT" envDefault:"normal" help:"high, normal or low: the queue of all other types"`
}

func (p *Priorities) check(r *report) {
	r.oneOf("PRIORITY_DEFAULT", p.Default, string(activity.High), string(activity.Normal), string(activity.Low))
	high := map[string]bool{}
	for _, t := range p.High {
		high[t] = true
	}
	for _, t := range p.Low {
		if high[t] {
			r.add("PRIORITY_LOW_TYPES", "lists "+t+", which PRIORITY_HIGH_TYPES lists too", "remove it from one of them")
		}
	}
}

// ByType returns the activity types that have a priority of their own, and those
// priorities.
func (p Priorities) ByType() map[string]activity.Priority {
	m := map[string]activity.Priority{}
	for _, t := range p.High {
		m[t] = activity.High
	}
	for _, t := range p.Low {
		m[t] = activity.Low
	}
	return m
}

// Words is a list of words.
type Words []string

func (w *Words) UnmarshalText(b []byte) error {
	for s := range strings.SplitSeq(string(b), ",") {
		if s = strings.TrimSpace(s); s != "" {
			*w = append(*w, s)
		}
	}
	return nil
}
