package main

import (
	"strings"
	"testing"
)

// TestColumnsAreAlignedWhereTheLastCellsAreEmpty: the columns above and below a row with
// empty last cells stay aligned.
func TestColumnsAreAlignedWhereTheLastCellsAreEmpty(t *testing.T) {
	var out strings.Builder
	err := table(&out, []string{"STATE", "INBOX", "ERROR"}, [][]string{
		{"delivered", "https://a.example/users/mo/inbox", ""},
		{"failed", "https://b.example/", "answered 410 Gone"},
	})
	want := "" +
		"STATE      INBOX                             ERROR\n" +
		"delivered  https://a.example/users/mo/inbox\n" +
		"failed     https://b.example/                answered 410 Gone\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, &out, want)
	}
}
