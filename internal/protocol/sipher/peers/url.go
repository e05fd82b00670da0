package peers

import (
	"errors"
	"fmt"
	"net/url"

	"fedpost/internal/activity"
)

// MaxURL is the longest server URL that is registered, in bytes.
const MaxURL = 300

// ErrURL says that a text is no server URL.
var ErrURL = errors.New("not a server URL")

// CheckURL returns an error that wraps ErrURL unless s can be asked for a discovery document: an
// absolute http or https URL without query, fragment or password. The HTTP client checks addresses.
func CheckURL(s string) error {
	_, err := parse(s)
	return err
}

// CheckOrigin is CheckURL for servers that register themselves: the URL must be an origin in its
// canonical spelling, so that one host is one record.
func CheckOrigin(s string) error {
	u, err := parse(s)
	if err != nil {
		return err
	}
	host, err := activity.Authority(u)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrURL, err)
	case s != u.Scheme+"://"+host:
		return fmt.Errorf("%w: it must be an origin in lower case, such as https://example.org, without path or trailing slash", ErrURL)
	}
	return nil
}

func parse(s string) (*url.URL, error) {
	if len(s) > MaxURL {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrURL, MaxURL)
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it does not parse", ErrURL)
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return nil, fmt.Errorf("%w: it must begin with https:// and a host name", ErrURL)
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return nil, fmt.Errorf("%w: it must have no user name, query or fragment", ErrURL)
	}
	return u, nil
}
