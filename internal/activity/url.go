package activity

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// CanonicalURL returns the one spelling of an absolute http or https URL, which goes on the wire and which
// signatures cover: the scheme in lower case, the host as Authority, dot segments resolved (RFC 3986,
// section 5.2.4; %2e counts as a dot, as in browsers), "/" for an empty path, no empty query, no fragment.
//
// Path and query stay byte for byte, also %2F and the case of hex digits: only the receiver knows what they
// mean. Only bytes that no URL may have (RFC 3986, appendix A), such as those of ü, are percent-encoded.
//
// The error continues a sentence that begins with the field's name: "is empty; …".
func CanonicalURL(s string) (string, error) {
	if s == "" {
		return "", errors.New("is empty; give an absolute http or https URL")
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", errors.New("is not a URL; give an absolute http or https URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("is not an absolute http or https URL")
	case u.User != nil:
		return "", errors.New("holds a user name or password; remove what is before the @")
	case u.Hostname() == "" || u.Opaque != "":
		return "", errors.New("has no host; give an absolute http or https URL")
	case strings.Contains(u.RawQuery, " "):
		return "", errors.New("has a space in its query; percent-encode it")
	}
	host, err := Authority(u)
	if err != nil {
		return "", fmt.Errorf("has an %w", err)
	}
	c := u.Scheme + "://" + host + resolveDots(encode(rawPath(s), pathByte))
	if u.RawQuery != "" {
		c += "?" + encode(u.RawQuery, queryByte)
	}
	return c, nil
}

// Document is the URL of the document that an id is in, in canonical form if it has one.
func Document(id string) string {
	id, _, _ = strings.Cut(id, "#")
	if c, err := CanonicalURL(id); err == nil {
		return c
	}
	return id
}

// CanonicalServer is CanonicalURL for the URL of a Sipher server: without a path that is only "/".
func CanonicalServer(s string) (string, error) {
	c, err := CanonicalURL(s)
	if err == nil && strings.Count(c, "/") == 3 {
		c = strings.TrimSuffix(c, "/")
	}
	return c, err
}

// ServerName is CanonicalServer for comparing: a text without canonical form stays as it is.
func ServerName(s string) string {
	c, err := CanonicalServer(s)
	if err != nil {
		return s
	}
	return c
}

// rawPath cuts the path out of an absolute URL with a host. url.URL does not keep it: of "/a%2Fb/ü" it has
// "/a/b/ü".
func rawPath(s string) string {
	s, _, _ = strings.Cut(s, "#")
	s, _, _ = strings.Cut(s, "?")
	_, s, _ = strings.Cut(s, "://")
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[i:]
	}
	return "/"
}

// pathByte and queryByte report whether a byte may be in a path or query.
func pathByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@%/[]", c) >= 0
}

// queryByte accepts more than RFC 3986, as servers do.
func queryByte(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '<' && c != '>' }

// encode percent-encodes the bytes of s that allowed refuses.
func encode(s string, allowed func(byte) bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; allowed(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// resolveDots resolves the segments "." and ".." of an absolute path.
func resolveDots(path string) string {
	if !strings.Contains(path, "/.") && !strings.Contains(path, "/%") {
		return path
	}
	segments := strings.Split(path[1:], "/")
	out := segments[:0]
	for i, segment := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ReplaceAll(segment, "%2e", "."), "%2E", ".") {
		case ".":
		case "..":
			out = out[:max(len(out)-1, 0)]
		default:
			out = append(out, segment)
			last = false
		}
		if last {
			out = append(out, "") // "/a/.." is the folder "/"
		}
	}
	return "/" + strings.Join(out, "/")
}
