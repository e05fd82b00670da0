package outbound

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// RequestError says that a request cannot be made as asked: nothing was sent,
// and asking again will not help.
type RequestError struct{ What string }

func (e *RequestError) Error() string { return "cannot make request: " + e.What }

func refuse(format string, args ...any) error {
	return &RequestError{What: fmt.Sprintf(format, args...)}
}

// NewRequest returns a request whose URL is written just as it will go on the
// wire, which signatures rely on: host in ASCII and lower case without the
// scheme's own port, a path, no fragment, no empty query. Its error is a *RequestError.
func NewRequest(ctx context.Context, method, rawURL, body string) (*http.Request, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, refuse("%v", err)
	}
	if err := canonical(u); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return nil, refuse("%v", err)
	}
	return r, nil
}

func canonical(u *url.URL) error {
	if u.Scheme != "https" && u.Scheme != "http" {
		return refuse("%q is not an absolute http or https URL", u.Redacted())
	}
	name, port := strings.TrimSuffix(u.Hostname(), "."), u.Port()
	if name == "" || u.Opaque != "" {
		return refuse("%q names no host", u.Redacted())
	}
	if u.User != nil {
		return refuse("%q has user information, which would be sent to the host", u.Redacted())
	}
	if strings.Contains(name, ":") {
		name = "[" + strings.ToLower(name) + "]"
	} else {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil && !visible(name) {
			return refuse("host of %q: %v", u.Redacted(), err)
		}
		if err != nil {
			// Names with an underscore are against the rules, yet resolve.
			ascii = strings.ToLower(name)
		}
		if ascii == "" {
			return refuse("host of %q has only characters that do not count", u.Redacted())
		}
		name = ascii
	}
	u.Host = name
	if port != "" && (u.Scheme != "https" || port != "443") && (u.Scheme != "http" || port != "80") {
		u.Host += ":" + port
	}
	if u.Path == "" {
		u.Path = "/"
	}
	// Receivers disagree on whether an empty query belongs to the signed target.
	u.ForceQuery = false
	u.Fragment, u.RawFragment = "", ""
	return nil
}

// check refuses whatever could make more than one request, or a header, out of
// one: net/http checks most of it too, but not the query.
func (c *Client) check(r *http.Request) error {
	switch {
	case r.URL.Scheme == "http" && !c.plainHTTP:
		return refuse("%s is not https", r.URL.Redacted())
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return refuse("scheme %q", r.URL.Scheme)
	case r.URL.User != nil:
		return refuse("the URL has user information")
	case !visible(r.URL.RequestURI()):
		return refuse("the path or query of %q has a space, a control or a non-ASCII character; percent-encode it", r.URL.Redacted())
	case r.URL.Host == "" || !visible(r.URL.Host) || !visible(r.Host):
		return refuse("host %q", r.URL.Host)
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return refuse("header name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return refuse("the value of header %s has a control character", name)
			}
		}
	}
	return nil
}

// visible reports whether s is of visible ASCII characters only.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
