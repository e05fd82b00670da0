package activity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"unicode/utf8"
)

// Target is one place to deliver to: an inbox, and how many recipients of the activity it stands for (more
// than one for a shared inbox). In JSON a plain one is the bare URL, which keeps lists small.
type Target struct {
	Inbox string // canonical
	// Written is the URL as the caller wrote it, empty if that is Inbox: callers look for it in answers.
	Written string
	Stands  int
	// Shared says that Inbox is a server's shared inbox: a 410 from it means that the whole server is gone.
	Shared bool
	// Headers are added to each request to it, in place of the activity's of the same names.
	Headers Headers
}

type targetJSON struct {
	Inbox   string  `json:"i"`
	Written string  `json:"w,omitempty"`
	Stands  int     `json:"n,omitempty"`
	Shared  bool    `json:"s,omitempty"`
	Headers Headers `json:"h,omitempty"`
}

func (t Target) MarshalJSON() ([]byte, error) {
	if t.Stands <= 1 && !t.Shared && t.Headers == "" && t.Written == "" {
		return json.Marshal(t.Inbox)
	}
	return json.Marshal(targetJSON(t))
}

func (t *Target) UnmarshalJSON(b []byte) error {
	if len(b) > 1 && b[0] == '"' {
		*t = Target{Stands: 1}
		if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
			t.Inbox = string(b[1 : len(b)-1]) // an activity may have 50,000 of them
			return nil
		}
		return json.Unmarshal(b, &t.Inbox)
	}
	var j targetJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*t = Target(j)
	t.Stands = cmp.Or(t.Stands, 1)
	return nil
}

// Host is the Authority of t's inbox; empty if Inbox is no URL, which enqueue has ruled out.
func (t Target) Host() string { return HostOf(t.Inbox) }

// HostOf returns the Authority of an absolute URL, or "" if it has none.
func HostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	host, err := Authority(u)
	if err != nil {
		return ""
	}
	return host
}
