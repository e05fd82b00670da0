package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpost/client"
)

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

func aboutServer(act, name string) (question, bool) {
	subdomains := field{Name: "subdomains", Label: "All of its subdomains, too", Kind: "checkbox"}
	q, ok := map[string]question{
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
	}[act]
	return q, ok
}

func (p *Page) askServer(v *visit) error {
	name, act := v.r.PathValue("name"), v.r.PathValue("act")
	q, ok := aboutServer(act, clean(name))
	if !ok {
		return noSuchAction()
	}
	var s client.Server
	if err := v.get(serverPath(name), nil, &s); err != nil {
		return err
	}
	q.Back = "/servers/" + url.PathEscape(name)
	q.Where = q.Back + "/" + act
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
	return v.show("ask", view{Title: q.Title, Nav: "servers", Data: q})
}

func (p *Page) actServer(v *visit) error {
	name, act := v.r.PathValue("name"), v.r.PathValue("act")
	if _, ok := aboutServer(act, name); !ok {
		return noSuchAction()
	}
	why := strings.TrimSpace(v.r.PostFormValue("reason"))
	target, method, path, done := name, http.MethodPost, "/"+act, act
	var body any
	switch act {
	case "block":
		if v.r.PostFormValue("subdomains") != "" {
			target = "*." + strings.TrimPrefix(name, "*.")
		}
		body = client.Block{Reason: why}
	case "pause":
		length, err := pauseOf(v.r.PostFormValue("for"))
		if err != nil {
			return err
		}
		body = client.Pause{Reason: why, For: length}
	case "limit":
		var settings client.HostSettings
		perMinute, err := numberOf(v.r, "perMinute")
		if err != nil {
			return err
		}
		burst, err := numberOf(v.r, "burst")
		if err != nil {
			return err
		}
		if done = "no-limit"; perMinute > 0 {
			settings.RateLimit, done = &client.RateSetting{PerMinute: perMinute, Burst: burst}, "limit"
		}
		method, path, body = http.MethodPut, "", settings
	}
	if act == "forget" {
		if err := v.do(http.MethodDelete, serverPath(name), nil, nil); err != nil {
			return err
		}
		return v.back("/servers", done)
	}
	if err := v.do(method, serverPath(target)+path, body, nil); err != nil {
		return err
	}
	return v.back("/servers/"+url.PathEscape(target), done)
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

// do asks the API to change something.
func (v *visit) do(method, path string, body, out any) error {
	return v.api.Do(v.r.Context(), method, path, body, out)
}
