package enqueue

import (
	"errors"
	"strconv"
	"strings"

	"fedpost/internal/activity"
)

// maxURL is the longest URL in bytes: the targets of a chunk must fit in one table item.
const maxURL = 2048

// canonical returns the canonical spelling of a URL, or why fedpost cannot post to it. Whether
// the host's address is public is checked on dialling, because it may change until then.
func canonical(s string, spell func(string) (string, error)) (string, error) {
	switch {
	case len(s) > maxURL:
		return "", errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "", errors.New("holds a space or control character; percent-encode it")
	case strings.Contains(s, "#"):
		return "", errors.New("has a fragment, which is never sent; remove what is after the #")
	}
	c, err := spell(s)
	if len(c) > maxURL {
		return "", errors.New("is longer than " + strconv.Itoa(maxURL) + " bytes, percent-encoded")
	}
	return c, err
}

// canonicalInbox does what canonical does, for an inbox or another URL that
// fedpost posts to.
func canonicalInbox(s string) (string, error) { return canonical(s, activity.CanonicalURL) }
