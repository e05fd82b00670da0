package outbound

import "fedpost/internal/activity/outcome"

// Excerpt returns the beginning of the body, cleaned, of at most
// outcome.MaxText bytes.
func (a Answer) Excerpt() string { return outcome.Text(string(a.Body)) }
