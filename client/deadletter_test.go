package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpost/client"
)

func TestDeadLettersAreCountedByTheirLastAnswer(t *testing.T) {
	all := []client.DeadLetter{
		{Reason: "not delivered within 2m0s", LastStatus: 503, LastError: "answered 503"},
		{Reason: "age", LastStatus: 503, LastError: "answered 503"},
		{Reason: "age", LastError: "no such host"},
		{Reason: "age", LastStatus: 502, LastError: "Bad Gateway"},
		{Reason: "lost"},
		{LastError: "a"},
		{LastError: "b"},
	}
	want := []string{"2 × answered 503", "1 × 502 Bad Gateway", "1 × a", "1 × b", "1 × lost", "1 other answers"}
	if diff := cmp.Diff(want, client.LastAnswers(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
