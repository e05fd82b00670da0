package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// filters are the choices of a parameter of a page, of which the empty one is its default.
func filters(page, parameter, chosen string, all []choice) (shown []filter) {
	for _, c := range all {
		where := page
		if c.Value != "" {
			where += "?" + parameter + "=" + c.Value
		}
		shown = append(shown, filter{c.Text, where, c.Value == chosen})
	}
	return shown
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
	l := serverList{Filters: filters("/servers", "phase", phase, []choice{
		{"", "In trouble"}, {"waiting", "Deliveries wait"}, {"paused", "Paused"}, {"blocked", "Blocked"}, {"gone", "Gone"}, {"exhausted", "Exhausted"}, {"all", "All with a record"},
	})}
	var err error
	switch phase {
	case "":
		err = v.inTrouble(&l)
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

// inTrouble lists the servers of several phases, the longest down first.
func (v *visit) inTrouble(l *serverList) error {
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

// question asks for confirmation of an action.
type question struct {
	Title  string
	Says   []string // what will happen
	Yes    string   // the button that does it
	Where  string   // where the form goes
	Back   string
	Danger bool
	Fields []field
	Hidden map[string]string
}

// field is an input of a question.
type field struct {
	Name, Label, Hint, Value string
	Kind                     string // text, number, checkbox, checks (several of the choices) or choice (one)
	Choices                  []choice
	Values                   []string // the checks that are on
	On                       bool     // of a checkbox
}

type choice struct{ Value, Text string }

// reason is the field for an operator's reason.
var reason = field{Name: "reason", Label: "Reason (shown with the server)", Kind: "text"}

func questionsAboutServer(name string) map[string]question {
	subdomains := field{Name: "subdomains", Label: "All of its subdomains, too", Kind: "checkbox"}
	return map[string]question{
		"block": {
			Title: "Block " + name + "?", Yes: "Block", Danger: true, Fields: []field{subdomains, reason},
			Says: []string{
				"No delivery is made to this server until you unblock it.",
				"Deliveries that wait for it fail. Unblocking does not bring them back.",
			},
		},
		"unblock": {
			Title: "Unblock " + name + "?", Yes: "Unblock",
			Says: []string{"New deliveries go out again. Deliveries that failed meanwhile stay failed."},
		},
		"pause": {
			Title: "Pause deliveries to " + name + "?", Yes: "Pause",
			Says: []string{"Deliveries wait. None is lost before the give-up time (7 days unless RETRY_GIVE_UP says otherwise)."},
			Fields: []field{{Name: "for", Label: "For how long", Kind: "choice", Value: "PT2H", Choices: []choice{
				{"PT30M", "30 minutes"}, {"PT2H", "2 hours"}, {"PT12H", "12 hours"}, {"P1D", "1 day"}, {"P3D", "3 days"}, {"", "until I resume it"},
			}}, reason},
		},
		"resume": {
			Title: "Resume deliveries to " + name + "?", Yes: "Resume",
			Says: []string{
				"This ends a pause, an outage or the state gone.",
				"Waiting deliveries are released: 10 in the first minute, then 50, 250 and 1000 a minute. If the server still fails, deliveries wait again.",
			},
		},
		"forget": {
			Title: "Delete the record of " + name + "?", Yes: "Delete",
			Says: []string{"The server's outage, pause and rate limit are deleted. It counts as healthy until it fails again."},
		},
		"check": {
			Title: "Check " + name + " now?", Yes: "Check",
			Says: []string{"The server is checked within a minute. If it answers, one delivery is tried; if that is accepted, the others follow."},
		},
		"limit": {
			Title: "Limit the deliveries to " + name + "?", Yes: "Set the limit",
			Says: []string{"Deliveries over the limit wait until the limit allows them."},
			Fields: []field{
				{Name: "perMinute", Label: "Deliveries a minute", Hint: "0 or empty: no limit", Kind: "number"},
				{Name: "burst", Label: "At once", Hint: "empty: as many as in five seconds", Kind: "number"},
			},
		},
	}
}

func (p *Page) askServer(v *visit) error {
	name, act := v.r.PathValue("name"), v.r.PathValue("act")
	q, ok := questionsAboutServer(clean(name))[act]
	if !ok {
		return noSuchAction()
	}
	s, err := v.api.Server(v.r.Context(), name)
	if err != nil {
		return err
	}
	q.Back = "/servers/" + url.PathEscape(name)
	if s.Parked && act != "check" {
		q.Says = append(q.Says, "Deliveries wait for this server now.")
	}
	host := hostOf(name)
	// Only a host name of at least two labels has subdomains that can be blocked.
	if !isHost(s) || strings.ContainsAny(host, ":[") || !strings.Contains(host, ".") || strings.Trim(host, "0123456789.") == "" {
		q.Fields = slices.DeleteFunc(q.Fields, func(f field) bool { return f.Name == "subdomains" })
	}
	for i, f := range q.Fields {
		switch {
		case f.Name == "perMinute" && s.RateLimit != nil:
			q.Fields[i].Value = strconv.Itoa(s.RateLimit.PerMinute)
		case f.Name == "burst" && s.RateLimit != nil && s.RateLimit.Burst > 0:
			q.Fields[i].Value = strconv.Itoa(s.RateLimit.Burst)
		case f.Name == "subdomains":
			q.Fields[i].Label = fmt.Sprintf("All of its subdomains, too (*.%s)", clean(host))
		}
	}
	return v.ask("servers", q)
}

func (p *Page) actServer(v *visit) error {
	ctx, name, done := v.r.Context(), v.r.PathValue("name"), v.r.PathValue("act")
	why := strings.TrimSpace(v.r.PostFormValue("reason"))
	var err error
	switch done {
	case "block":
		if v.r.PostFormValue("subdomains") != "" {
			name = "*." + strings.TrimPrefix(name, "*.")
		}
		_, err = v.api.BlockServer(ctx, name, client.Block{Reason: why})
	case "unblock":
		_, err = v.api.UnblockServer(ctx, name)
	case "pause":
		var length client.Duration
		if length, err = pauseOf(v.r.PostFormValue("for")); err == nil {
			_, err = v.api.PauseServer(ctx, name, client.Pause{Reason: why, For: length})
		}
	case "resume":
		_, err = v.api.ResumeServer(ctx, name)
	case "check":
		_, err = v.api.CheckServer(ctx, name)
	case "limit":
		var limit *client.RateSetting
		if limit, err = limitOf(v.r); limit == nil {
			done = "no-limit"
		}
		if err == nil {
			_, err = v.api.LimitServer(ctx, name, limit)
		}
	case "forget":
		return v.back("/servers", done, v.api.ForgetServer(ctx, name))
	default:
		return noSuchAction()
	}
	return v.back("/servers/"+url.PathEscape(name), done, err)
}

// limitOf reads the limit of a form, nil for none.
func limitOf(r *http.Request) (*client.RateSetting, error) {
	perMinute, err := numberOf(r, "perMinute")
	burst, wrong := numberOf(r, "burst")
	if err = cmp.Or(err, wrong); err != nil || perMinute == 0 {
		return nil, err
	}
	return &client.RateSetting{PerMinute: perMinute, Burst: burst}, nil
}

func pauseOf(s string) (client.Duration, error) {
	length, ok := map[string]time.Duration{
		"": 0, "PT30M": 30 * time.Minute, "PT2H": 2 * time.Hour, "PT12H": 12 * time.Hour, "P1D": 24 * time.Hour, "P3D": 72 * time.Hour,
	}[s]
	if !ok {
		return 0, refuse(http.StatusBadRequest, "Choose one of the lengths of a pause.")
	}
	return client.Duration(length), nil
}

// numberOf reads a number of a form; empty is 0.
func numberOf(r *http.Request, name string) (int, error) {
	s := strings.TrimSpace(r.PostFormValue(name))
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusBadRequest, "Give whole numbers, or leave them empty.")
	}
	return n, nil
}
