package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpost/internal/protocol/sipher/wire"
	"fedpost/internal/testkit/property"
)

func TestOutcome1PayloadsThatCanNeverBeSent(t *testing.T) {
	for name, c := range map[string]struct{ payload, says string }{
		"empty":               {``, "JSON object"},
		"not JSON":            {`{"method":"FEDERATE"`, "JSON object"},
		"text":                {`FEDERATE`, "JSON object"},
		"null":                {`null`, "JSON object"},
		"array":               {`["FEDERATE"]`, "JSON object"},
		"string":              {`"FEDERATE"`, "JSON object"},
		"number":              {`7`, "JSON object"},
		"no method":           {`{}`, "missing"},
		"method of wrong key": {`{"Method":"FEDERATE"}`, "missing"},
		"null method":         {`{"method":null}`, "not a string"},
		"number as method":    {`{"method":7}`, "not a string"},
		"array as method":     {`{"method":["FEDERATE"]}`, "not a string"},
		"method of no list":   {`{"method":"DELETE"}`, "DELETE"},
		"lower-case method":   {`{"method":"federate"}`, "federate"},
		"padded method":       {`{"method":" FEDERATE"}`, "FEDERATE"},
		"empty method":        {`{"method":""}`, "not one of"},
		"internal method":     {`{"method":"REGISTER"}`, "REGISTER"},
		"not UTF-8":           {"{\"method\":\"FEDERATE\",\"x\":\"\xff\"}", "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.ParsePayload(c.payload)
			if !errors.Is(err, wire.ErrPayload) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want a payload error that says %q", err, c.says)
			}
		})
	}
}

func TestAllFourMethodsAreValidToQueue(t *testing.T) {
	for _, m := range []wire.Method{wire.Federate, wire.FederatePost, wire.Insert, wire.Unfollow} {
		p, err := wire.ParsePayload(`{"x":1,"method":"` + string(m) + `"}`)
		if err != nil || p.Method != m || p.Following != nil {
			t.Errorf("%s: %v, %v", m, p, err)
		}
	}
}

func TestFollowOfAPayloadIsRead(t *testing.T) {
	p, err := wire.ParsePayload(vectors(t).Follow.Job.Payload)
	if err != nil {
		t.Fatal(err)
	}
	want := &wire.Following{
		ID: "11111111-1111-4111-8111-111111111111", FollowerID: "user-alice-on-a", FollowingID: "user-bob-on-b",
		CreatedAt: "2026-05-06T14:17:40.000Z", FollowerServerURL: "https://b.example",
	}
	if d := cmp.Diff(want, p.Following); d != "" {
		t.Error(d)
	}
	for _, s := range []string{
		`{"method":"FEDERATE","following":null}`, `{"method":"FEDERATE","following":{"followerId":"a"}}`,
		`{"method":"FEDERATE","following":{"followerId":"a","followingId":7}}`, `{"method":"FEDERATE","Following":{"followerId":"a","followingId":"b"}}`,
	} {
		if p, err := wire.ParsePayload(s); err != nil || p.Following != nil {
			t.Errorf("%s: %v, %v", s, p.Following, err)
		}
	}
	p, err = wire.ParsePayload(`{"method":"FEDERATE","following":{"followerId":"a","followingId":"b","accepted":true,"acknowledged":true,"followingServerUrl":"https://b"}}`)
	if err != nil || p.Following == nil || !p.Following.Accepted || !p.Following.Acknowledged || p.Following.FollowingServerURL != "https://b" {
		t.Errorf("the follow is %+v, error %v; want accepted and acknowledged, of https://b", p.Following, err)
	}
}

func TestAnyObjectWithAnAllowedMethodIsAPayload(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "members")
		method := rapid.SampledFrom([]string{"FEDERATE", "FEDERATE_POST", "INSERT", "UNFOLLOW"}).Draw(t, "method")
		m["method"] = method
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := wire.ParsePayload(string(b)); err != nil || string(p.Method) != method {
			t.Fatalf("%s: %v, %v", b, p, err)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add(vectors(f).Follow.Job.Payload)
	f.Add(`{"method":"INSERT","following":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := wire.ParsePayload(s)
		if err != nil {
			if !errors.Is(err, wire.ErrPayload) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		var m map[string]any
		if json.Unmarshal([]byte(s), &m) != nil || m["method"] != string(p.Method) || !p.Method.Valid() {
			t.Errorf("%q accepted as %q", s, p.Method)
		}
	})
}
