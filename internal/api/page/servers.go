package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"fedpost/client"
)

type serverList struct {
	Filters []filter
	Servers []client.Server
	Hosts   []client.Hosted // the servers, by host
	Next    string          // address of the next page
	Cut     bool            // there are more than are shown
}

// filter is a choice of what a list shows.
type filter struct {
	Text, Where string
	On          bool
}

// troubled are the phases in which deliveries fail or wait because of the server.
var troubled = []client.Phase{client.PhaseUnhealthy, client.PhaseHalfOpen, client.PhaseExhausted, client.PhaseRecovering}

const perPhase = 100

func (p *Page) servers(v *visit) error {
	q := v.r.URL.Query()
	if name := strings.TrimSpace(q.Get("name")); name != "" {
		http.Redirect(v.w, v.r, "/servers/"+url.PathEscape(name), http.StatusSeeOther)
		return nil
	}
	phase := q.Get("phase")
	l := serverList{}
	for _, f := range []struct{ text, phase string }{
		{"In trouble", ""}, {"Deliveries wait", "waiting"}, {"Paused", "paused"}, {"Blocked", "blocked"}, {"Gone", "gone"}, {"Exhausted", "exhausted"}, {"All with a record", "all"},
	} {
		where := "/servers"
		if f.phase != "" {
			where += "?phase=" + f.phase
		}
		l.Filters = append(l.Filters, filter{f.text, where, f.phase == phase})
	}
	var err error
	switch phase {
	case "":
		err = v.introuble(&l)
	case "waiting":
		err = v.waitedFor(&l)
	case "all":
		err = v.serversOf(&l, phase, url.Values{})
	default:
		err = v.serversOf(&l, phase, url.Values{"phase": {phase}})
	}
	if err != nil {
		return err
	}
	l.Hosts = client.ByHost(l.Servers)
	return v.show("servers", view{Title: "Servers", Nav: "servers", Refresh: 20, Data: l})
}

// introuble lists the servers of several phases, the longest down first.
func (v *visit) introuble(l *serverList) error {
	pages := make([]client.Servers, len(troubled))
	g, _ := errgroup.WithContext(v.r.Context())
	for i, phase := range troubled {
		g.Go(func() error {
			return v.get("/v1/servers", url.Values{"phase": {string(phase)}, "waiting": {"true"}, "limit": {strconv.Itoa(perPhase)}}, &pages[i])
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, page := range pages {
		l.Servers = append(l.Servers, page.Servers...)
		l.Cut = l.Cut || page.NextCursor != ""
	}
	slices.SortFunc(l.Servers, func(a, b client.Server) int {
		return cmp.Or(a.DownSince.Compare(b.DownSince), strings.Compare(a.Name, b.Name))
	})
	return nil
}

// mostPages is how many pages of servers waitedFor reads.
const mostPages = 5

// waitedFor lists the servers for which deliveries wait, those with most deliveries first.
func (v *visit) waitedFor(l *serverList) error {
	query := url.Values{"waiting": {"true"}, "limit": {"1000"}}
	for range mostPages {
		var page client.Servers
		if err := v.get("/v1/servers", query, &page); err != nil {
			return err
		}
		for _, s := range page.Servers {
			if s.Parked {
				l.Servers = append(l.Servers, s)
			}
		}
		query.Set("cursor", page.NextCursor)
		if l.Cut = page.NextCursor != ""; !l.Cut {
			break
		}
	}
	slices.SortFunc(l.Servers, func(a, b client.Server) int {
		return cmp.Or(waiting(b)-waiting(a), strings.Compare(a.Name, b.Name))
	})
	if len(l.Servers) > 4*perPhase {
		l.Servers, l.Cut = l.Servers[:4*perPhase], true
	}
	return nil
}

func waiting(s client.Server) int {
	if s.Waiting == nil {
		return 0
	}
	return s.Waiting.Count
}

func (v *visit) serversOf(l *serverList, phase string, query url.Values) error {
	query.Set("limit", strconv.Itoa(perPhase))
	query.Set("waiting", "true")
	if cursor := v.r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	var page client.Servers
	if err := v.get("/v1/servers", query, &page); err != nil {
		return err
	}
	l.Servers = page.Servers
	if page.NextCursor != "" {
		l.Next = "/servers?" + url.Values{"phase": {phase}, "cursor": {page.NextCursor}}.Encode()
	}
	return nil
}

func serverPath(name string) string { return "/v1/servers/" + url.PathEscape(name) }

type oneServer struct {
	client.Server
	Actions  []action
	Waiting  *client.Waiting // nil: nothing can wait for a server of this kind
	Dead     []client.DeadLetter
	MoreDead bool
	Refuser  string // the host whose refusals can be tried again
}

// action is something that can be done.
type action struct {
	Name, Text, Where string
	Danger            bool
}

// isHost reports whether the server is a host, which can be paused and limited.
func isHost(s client.Server) bool {
	return !strings.Contains(s.Name, "://") && !strings.HasPrefix(s.Name, "inbox:") && !strings.HasPrefix(s.Name, "*.")
}

// actionsOn lists the possible actions on a server, the likeliest first.
func actionsOn(s client.Server) []action {
	var all []action
	add := func(name, text string, danger bool) {
		all = append(all, action{name, text, "/servers/" + url.PathEscape(s.Name) + "/" + name, danger})
	}
	if s.Phase == client.PhaseBlocked {
		add("unblock", "Unblock", false)
		return all
	}
	if !strings.HasPrefix(s.Name, "*.") {
		switch s.Phase {
		case client.PhaseUnhealthy, client.PhaseHalfOpen, client.PhaseExhausted, client.PhaseGone:
			add("check", "Check now", false)
			add("resume", "Resume", false)
		case client.PhasePaused:
			add("resume", "Resume", false)
		}
	}
	if isHost(s) {
		if s.Phase != client.PhasePaused {
			add("pause", "Pause", false)
		}
		add("limit", "Limit rate", false)
	}
	if !strings.HasPrefix(s.Name, "inbox:") {
		add("block", "Block", true)
	}
	down := s.Phase == client.PhaseUnhealthy || s.Phase == client.PhaseExhausted || s.Phase == client.PhaseGone
	if down && !s.Parked && (isHost(s) || strings.HasPrefix(s.Name, "inbox:")) {
		add("forget", "Delete record", false)
	}
	return all
}

func (p *Page) server(v *visit) error {
	var s oneServer
	if err := v.get(serverPath(v.r.PathValue("name")), nil, &s.Server); err != nil {
		return err
	}
	s.Actions = actionsOn(s.Server)
	if isHost(s.Server) || strings.HasPrefix(s.Name, "inbox:") {
		query := url.Values{"limit": {"20"}}
		if cursor := v.r.URL.Query().Get("waiting"); cursor != "" {
			query.Set("cursor", cursor)
		}
		s.Waiting = &client.Waiting{}
		if err := v.get(serverPath(s.Name)+"/waiting", query, s.Waiting); err != nil {
			return err
		}
	}
	if host := hostOf(s.Name); host != "" {
		var dead client.DeadLetters
		if err := v.get("/v1/dead-letters", url.Values{"host": {host}, "limit": {"20"}}, &dead); err != nil {
			return err
		}
		s.Dead, s.MoreDead, s.Refuser = dead.DeadLetters, dead.NextCursor != "", host
	}
	return v.show("server", view{Title: clean(s.Name), Nav: "servers", Refresh: 10, Data: s})
}

// hostOf is the host of a server, or empty for a block of subdomains.
func hostOf(name string) string {
	name = strings.TrimPrefix(name, "inbox:")
	if strings.HasPrefix(name, "*.") {
		return ""
	}
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		return u.Host
	}
	return name
}
