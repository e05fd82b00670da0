package outbound

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"fedpost/internal/activity"
)

// RequestError says that the request is invalid: nothing was sent, and a retry does not help.
type RequestError struct{ What string }

func (e *RequestError) Error() string { return "cannot make request: " + e.What }

func refuse(format string, args ...any) error {
	return &RequestError{What: fmt.Sprintf(format, args...)}
}

// NewRequest returns a request to the canonical form of rawURL (activity.CanonicalURL), which the
// signature covers. The error is a *RequestError.
func NewRequest(ctx context.Context, method, rawURL, body string) (*http.Request, error) {
	canonical, err := activity.CanonicalURL(rawURL)
	if err != nil {
		return nil, brief(refuse("the URL %v", err))
	}
	r, err := http.NewRequestWithContext(ctx, method, canonical, strings.NewReader(body))
	if err != nil {
		return nil, brief(refuse("%v", err))
	}
	return r, nil
}

// check refuses characters that could split a request in two or add a header. net/http checks most
// parts, but not the query.
func (c *Client) check(r *http.Request) error {
	switch err := c.config.reaches(r.URL); {
	case err != nil:
		return err
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

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}
