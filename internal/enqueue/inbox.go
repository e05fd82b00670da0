package enqueue

import (
	"errors"
	"strconv"
	"strings"

	"fedpost/internal/activity"
)

// maxURL is the longest URL in bytes: longer ones are not seen in the wild, and
// the targets of a chunk must fit one item of the table.
const maxURL = 2048

// canonical returns the one spelling of a URL of a request, or why it cannot be
// posted to. Whether its address is a public one is asked when it is dialled: a
// name that is public now may not be then.
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

// canonicalInbox is canonical for an inbox or another URL that is posted to.
func canonicalInbox(s string) (string, error) { return canonical(s, activity.CanonicalURL) }
