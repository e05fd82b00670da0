package peers

import "strings"

// NewestFirst compares servers for sorting: the last seen first, and by URL
// where two were seen at once.
func NewestFirst(a, b Server) int {
	if c := b.LastSeen.Compare(a.LastSeen); c != 0 {
		return c
	}
	return strings.Compare(a.URL, b.URL)
}
