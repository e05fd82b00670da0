package registry_test

import (
	"errors"
	"testing"

	"fedpost/internal/api/operator/registry"
	"fedpost/internal/servers/circuit"
)

func TestANameIsOfAHostAnInboxOrASipherServer(t *testing.T) {
	for s, want := range map[string]registry.Name{
		"social.example":      {Key: circuit.HostKey("social.example")},
		"Social.Example.":     {Key: circuit.HostKey("social.example")},
		"social.example:443":  {Key: circuit.HostKey("social.example")},
		"social.example:8443": {Key: circuit.HostKey("social.example:8443")},
		"[2001:DB8::1]":       {Key: circuit.HostKey("[2001:db8::1]")},
		"127.0.0.1:8080":      {Key: circuit.HostKey("127.0.0.1:8080")},
		"*.Social.Example":    {Key: circuit.FamilyKey("social.example")},
		"inbox:https://social.example/users/Frida/inbox": {
			Key: circuit.InboxKey("https://social.example/users/Frida/inbox"),
		},
		"Ｍünchen.Example:0443": {Key: circuit.HostKey("xn--mnchen-3ya.example")},
		"so\u00adcial.example": {Key: circuit.HostKey("social.example")},
		"inbox:https://Social.example:0443/users/../inbox": {
			Key: circuit.InboxKey("https://social.example/inbox"),
		},
		// The circuit of an inbox for one signing key, as lists name it.
		"inbox:https://Social.example/inbox#key-0123456789ab": {
			Key: circuit.InboxKey("https://social.example/inbox#key-0123456789ab"),
		},
		"inbox:https://Social.example/#hostkey-0123456789ab": {Key: circuit.SignedHostKey("social.example", "0123456789ab")},
		"inbox:https://social.example/inbox#main":            {Key: circuit.InboxKey("https://social.example/inbox")},
		"https://sipher.example:443/":                        {URL: "https://sipher.example"},
		"https://Sipher.example":                             {URL: "https://sipher.example"},
		"http://sipher.example/a/":                           {URL: "http://sipher.example/a/"},
	} {
		got, err := registry.ParseName(s)
		if err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", " ", ".", "a..", "a b", "a.example/", "a.example?", "a@b.example", "a.example:", "a.example:0", "a.example:65536", "a.example:x", ":443",
		"%61.example", "inbox:", "inbox:x", "inbox:ftp://a.example/", "ftp://a.example", "https://", "https://u:p@a.example", "https://a.example?x", "[::1",
	} {
		if got, err := registry.ParseName(s); !errors.Is(err, registry.ErrName) {
			t.Errorf("%q is %+v, %v", s, got, err)
		}
	}
}

// FuzzParseName: what a name is written as is read as the same name.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"social.example:8443", "inbox:https://a.example/inbox", "inbox:https://a.example/#key-0123456789ab", "https://a.example", "[::1]:80", "xn--mnchen-3ya.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := registry.ParseName(s)
		if err != nil {
			return
		}
		if again, err := registry.ParseName(n.String()); err != nil || again != n {
			t.Errorf("%q is %+v, written %q, which is %+v, %v", s, n, n, again, err)
		}
	})
}
