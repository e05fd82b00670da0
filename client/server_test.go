package client_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpost/client"
)

func TestServersArePutTogetherByHost(t *testing.T) {
	a, b := client.Server{Name: "a.example"}, client.Server{Name: "https://b.example", Protocol: "sipher"}
	inbox, second, lone := client.Server{Name: "inbox:https://a.example/1", Host: "a.example"}, client.Server{Name: "inbox:https://a.example/2", Host: "a.example"}, client.Server{Name: "inbox:https://c.example/1", Host: "c.example"}
	want := []client.Hosted{
		{Host: "a.example", Own: &a, Inboxes: []client.Server{inbox, second}}, {Host: "c.example", Inboxes: []client.Server{lone}}, {Host: "https://b.example", Own: &b},
	}
	if diff := cmp.Diff(want, client.ByHost([]client.Server{inbox, lone, a, second, b})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
