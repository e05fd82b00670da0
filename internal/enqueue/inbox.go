package enqueue

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"fedpost/internal/activity"
)

// maxURL is the longest URL in bytes: longer ones are not seen in the wild, and
// the targets of a chunk must fit one item of the table.
const maxURL = 2048

// checkURL reports why s is not an absolute http(s) URL that can be posted to.
// Whether its address is a public one is asked when it is dialled: a name that
// is public now may not be then.
func checkURL(s string) error {
	switch {
	case s == "":
		return errors.New("is empty; give an absolute http or https URL")
	case len(s) > maxURL:
		return errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return errors.New("holds a space or control character; percent-encode it")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL; give an absolute http or https URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("is not an absolute http or https URL")
	case u.User != nil:
		return errors.New("holds a user name or password; remove what is before the @")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("has no host; give an absolute http or https URL")
	case strings.Contains(s, "#"):
		return errors.New("has a fragment, which is never sent; remove what is after the #")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("has a port that is not between 1 and 65535")
		}
	}
	return nil
}

// sameURL returns a key that is equal for spellings of one URL: scheme and host
// ignore case, a default port says nothing, an empty path is the root.
func sameURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	key := strings.ToLower(u.Scheme) + "://" + activity.Authority(u) + path
	if u.RawQuery != "" || u.ForceQuery {
		key += "?" + u.RawQuery
	}
	return key
}
