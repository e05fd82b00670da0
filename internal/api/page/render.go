package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedpost/client"
	"fedpost/internal/activity/outcome"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed assets
var assets embed.FS

// view is what the layout shows around a page.
type view struct {
	Title string
	Nav   string // the entry of the navigation that the page belongs to
	Error string // what went wrong
	Done  string // what was done just now
	// Refresh is how often the script renews the page, in seconds; 0 never.
	Refresh int
	Data    any

	// Set by render.
	Inside, SignedIn bool
	Stopped          string // why nothing can be written
	Reads            bool   // the visitor may only read
	Form, Of         string
	At               time.Time
}

// pages are the templates of all pages, each with the layout, parsed on first use.
var pages = sync.OnceValue(parse)

func parse() map[string]*template.Template {
	all := map[string]*template.Template{}
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		panic(err)
	}
	shared := template.Must(template.New("layout.html").Funcs(funcs).ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "layout" && name != "parts" {
			all[name] = template.Must(template.Must(shared.Clone()).ParseFS(templates, file))
		}
	}
	return all
}

// render writes a page whole or not at all.
func (p *Page) render(w http.ResponseWriter, r *http.Request, status int, name string, shown view) {
	shown.Of, shown.At = p.o.Of, p.o.Now()
	shown.Done = cmp.Or(shown.Done, done[r.URL.Query().Get("done")])
	var b bytes.Buffer
	if err := pages()[name].Execute(&b, shown); err != nil {
		p.o.Log.ErrorContext(r.Context(), "a page could not be rendered", "page", name, "error", err)
		http.Error(w, "The page could not be rendered; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := w.Write(b.Bytes()); err != nil {
		p.o.Log.DebugContext(r.Context(), "the client disconnected before the page was sent", "error", err)
	}
}

// version changes with the assets, so that browsers may keep them.
var version = func() string {
	sum := sha256.New()
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		b, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		sum.Write(b)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}()

var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// asset serves the style, the script and the icon, which are public.
func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, err := assets.ReadFile("assets/" + name)
	kind, known := kinds[path.Ext(name)]
	if err != nil || !known {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			p.o.Log.ErrorContext(r.Context(), "an asset could not be read", "error", err)
		}
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	if r.URL.Query().Get("v") == version {
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	}
	if _, err := w.Write(b); err != nil {
		p.o.Log.DebugContext(r.Context(), "the client disconnected before an asset was sent", "error", err)
	}
}

// mostText is how much of a stranger's text is shown, in bytes.
const mostText = 300

var funcs = template.FuncMap{
	"version": func() string { return version },
	"text":    func(s string) string { return clean(s) },
	"count":   thousands,
	"clock":   clock,
	"ago":     ago,
	"in":      ahead,
	"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"exact":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"span":    span,
	"pairs":   pairs,
	"path":    url.PathEscape,
	"word":    client.CountName,
	"answer":  answer,
	"what":    what,
	"has":     func(all []string, one string) bool { return slices.Contains(all, one) },
}

// clean shortens a stranger's text and removes characters that could change the direction of
// the text around it. html/template escapes the rest.
func clean(s string) string {
	short := outcome.Clean(s, mostText)
	if len(short) < len(outcome.Clean(s, mostText+1)) {
		short += "…"
	}
	return short
}

// pairs makes a map of its arguments, for templates that take several.
func pairs(args ...any) (map[string]any, error) {
	if len(args)%2 != 0 {
		return nil, errors.New("pairs takes names and values")
	}
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		name, ok := args[i].(string)
		if !ok {
			return nil, fmt.Errorf("pairs: %v is no name", args[i])
		}
		m[name] = args[i+1]
	}
	return m, nil
}

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
	if status == 0 || strings.Contains(text, number) {
		return text
	}
	return strings.TrimSpace(number + " " + text)
}

// what is the phase or state of an event, for its colour.
func what(kind string) string {
	_, state, _ := strings.Cut(kind, ".")
	if state == "recovered" {
		return "healthy"
	}
	return state
}
