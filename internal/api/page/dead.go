package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/client"
)

// deadList is the page of dead letters: by host, or those of one host.
type deadList struct {
	Host    string
	Groups  []deadGroup
	Answers []string // the last answers of all, with their numbers
	Letters []client.DeadLetter
	Read    int // how many were read
	Cut     bool
	Next    string
}

type deadGroup struct {
	Host    string
	N       int
	Answers []string // the last ones, with their numbers, the commonest first
	Newest  time.Time
}

const (
	// deadPage is the API's longest page of dead letters.
	deadPage = 200
	// deadPages is how many pages are read to group them.
	deadPages = 5
)

func (p *Page) dead(v *visit) error {
	l := deadList{Host: strings.TrimSpace(v.r.URL.Query().Get("host"))}
	if l.Host != "" {
		query := v.query("host", "cursor")
		query.Set("limit", "50")
		var page client.DeadLetters
		if err := v.get("/v1/dead-letters", query, &page); err != nil {
			return err
		}
		l.Letters, l.Read = page.DeadLetters, len(page.DeadLetters)
		if page.NextCursor != "" {
			l.Next = "/dead?" + url.Values{"host": {l.Host}, "cursor": {page.NextCursor}}.Encode()
		}
	} else {
		all, err := v.someDead()
		if err != nil {
			return err
		}
		l.Read, l.Cut, l.Groups = len(all.DeadLetters), all.NextCursor != "", grouped(all.DeadLetters)
		l.Answers = client.LastAnswers(all.DeadLetters)
	}
	return v.show("dead", view{Title: "Dead letters", Nav: "dead", Refresh: 30, Data: l})
}

func (v *visit) someDead() (all client.DeadLetters, err error) {
	query := url.Values{"limit": {strconv.Itoa(deadPage)}}
	for range deadPages {
		var page client.DeadLetters
		if err := v.get("/v1/dead-letters", query, &page); err != nil {
			return all, err
		}
		all.DeadLetters = append(all.DeadLetters, page.DeadLetters...)
		if all.NextCursor = page.NextCursor; page.NextCursor == "" {
			break
		}
		query.Set("cursor", page.NextCursor)
	}
	return all, nil
}

// grouped groups dead letters by host, the host with most first.
func grouped(all []client.DeadLetter) (out []deadGroup) {
	by := map[string][]client.DeadLetter{}
	for _, d := range all {
		by[d.Host] = append(by[d.Host], d)
	}
	for host, some := range by {
		newest := slices.MaxFunc(some, func(a, b client.DeadLetter) int { return a.DiedAt.Compare(b.DiedAt) })
		out = append(out, deadGroup{host, len(some), client.LastAnswers(some), newest.DiedAt})
	}
	slices.SortFunc(out, func(a, b deadGroup) int { return cmp.Or(b.N-a.N, strings.Compare(a.Host, b.Host)) })
	return out
}

// selected reads which dead letters an action is for, and describes them.
func (v *visit) selected(values url.Values) (client.Selection, string) {
	s := client.Selection{ID: values.Get("id"), Host: values.Get("host"), Activity: values.Get("activity")}
	s.Failed = s.ID == "" && values.Get("failed") != "" // a dead letter has not failed
	switch {
	case s.ID != "":
		return s, "this dead letter"
	case s.Host != "":
		return s, "all dead letters for " + clean(s.Host)
	}
	return s, "all dead letters of activity " + clean(s.Activity)
}

func selects(s client.Selection) bool { return s.ID != "" || s.Host != "" || s.Activity != "" }

// Bounds of a search for recipients that were refused for good, as the visitor waits: how many
// requests are made, and after how long none is begun.
const (
	failedSteps = 20
	failedTime  = 10 * time.Second
)

// retryDead retries dead letters, and reports whether more are left.
func (v *visit) retryDead(s client.Selection) (n int, more bool, err error) {
	begun := v.now()
	for range failedSteps {
		r, err := v.api.RetryDeadLetters(v.r.Context(), s)
		if err != nil {
			return n, false, err
		}
		n, more, s.Cursor = n+r.Retried, r.More, r.NextCursor
		if s.Cursor == "" || v.now().Sub(begun) >= failedTime {
			break
		}
	}
	return n, more, nil
}

func questionsAboutDead(which string) map[string]question {
	return map[string]question{
		"retry": {
			Title: "Retry " + which + "?", Yes: "Retry",
			Says: []string{"The deliveries get all attempts and the whole give-up time anew.", "If the server is still down, they wait for it."},
		},
		"drop": {
			Title: "Drop " + which + "?", Yes: "Drop for good", Danger: true,
			Says: []string{"Their recipients stay dead and cannot be retried any more."},
		},
	}
}

func (p *Page) askDead(v *visit) error {
	s, which := v.selected(v.r.URL.Query())
	act := v.r.PathValue("act")
	q, ok := questionsAboutDead(which)[act]
	if !ok || !selects(s) {
		return noSuchAction()
	}
	if act == "retry" && s.ID == "" {
		q.Fields = []field{{
			Name: "failed", Label: "Also recipients that were refused for good", Kind: "checkbox", On: s.Failed,
			Hint: "They have no dead letters. Most will be refused again unless the cause is fixed.",
		}}
	}
	q.Back, q.Hidden = "/dead", map[string]string{"id": s.ID, "host": s.Host, "activity": s.Activity}
	if s.Host != "" {
		q.Back += "?" + url.Values{"host": {s.Host}}.Encode()
	}
	return v.ask("dead", q)
}

func (p *Page) actDead(v *visit) error {
	s, _ := v.selected(v.r.PostForm)
	if !selects(s) {
		return noSuchAction()
	}
	n, more, done := 0, false, v.r.PathValue("act")
	switch done {
	case "retry":
		var err error
		if n, more, err = v.retryDead(s); err != nil {
			return err
		}
		if more && s.Failed {
			return v.back("/dead", "more-failed", nil)
		}
	case "drop":
		d, err := v.api.DropDeadLetters(v.r.Context(), s)
		if err != nil {
			return err
		}
		n, more = d.Dropped, d.More
	default:
		return noSuchAction()
	}
	switch {
	case n == 0 && !more:
		done = "none"
	case more && done == "retry":
		done = "more"
	case more:
		done = "drop-more"
	}
	return v.back("/dead", done, nil)
}
