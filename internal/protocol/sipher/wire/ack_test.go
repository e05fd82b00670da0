package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/wire"
)

func TestAcknowledgementsOfTheVectorsOpenInBothForms(t *testing.T) {
	v := vectors(t)
	a, b := v.server(t, "A"), v.server(t, "B")
	for _, c := range v.Acks {
		for form, body := range map[string]string{"inline": c.Direct, "wrapped": c.Wrapped} {
			t.Run(c.Label+" "+form, func(t *testing.T) {
				ack, err := wire.ParseAck([]byte(body))
				if err != nil {
					t.Fatal(err)
				}
				plain, err := ack.Open(a.Open)
				if err != nil || plain != c.Inner {
					t.Fatalf("the acknowledgement opens to %q, error %v; want %q", plain, err, c.Inner)
				}
				if !crypto.Verify(b.PublicKey, plain, ack.Signature) {
					t.Error("signature does not verify over the raw plaintext")
				}
				got, err := wire.ParseFollowAck(plain)
				if !c.Parse.Success {
					if !errors.Is(err, wire.ErrAckContent) {
						t.Errorf("accepted: %v", err)
					}
					return
				}
				f := c.Parse.Data.Following
				if err != nil || got.ID != f.ID || got.FollowerID != f.FollowerID || got.FollowingID != f.FollowingID ||
					got.FollowerServerURL != f.Server || got.Accepted == nil || *got.Accepted != *f.Accepted ||
					!got.CreatedAt.Equal(time.Date(2026, 5, 6, 14, 17, 41, 0, time.UTC)) {
					t.Errorf("the acknowledgement is of %+v, error %v; want %+v", got, err, f)
				}
			})
		}
	}
}

func TestTamperedAcknowledgementDoesNotOpen(t *testing.T) {
	v := vectors(t)
	for _, c := range v.Negative {
		ack, err := wire.ParseAck([]byte(c.Body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ack.Open(v.server(t, "A").Open); !errors.Is(err, wire.ErrAckContent) {
			t.Errorf("%s: %v", c.Label, err)
		}
	}
	if _, err := (wire.Ack{Data: json.RawMessage(`{"iv":7}`)}).Open(v.server(t, "A").Open); !errors.Is(err, wire.ErrAckContent) {
		t.Errorf("no envelope: %v", err)
	}
}

func TestOutcome7AnswersWithoutAcknowledgement(t *testing.T) {
	const inline = `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":"s"}`
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"empty":                 {"", wire.ErrNoJSON},
		"text":                  {"OK", wire.ErrNoJSON},
		"HTML":                  {"<html></html>", wire.ErrNoJSON},
		"cut off":               {inline[:40], wire.ErrNoJSON},
		"two documents":         {inline + inline, wire.ErrNoJSON},
		"null":                  {"null", wire.ErrNoAck},
		"string":                {`"acknowledged"`, wire.ErrNoAck},
		"array":                 {"[" + inline + "]", wire.ErrNoAck},
		"legacy":                {`{"status":"acknowledged"}`, wire.ErrNoAck},
		"other method":          {strings.Replace(inline, "PROXY_RESPONSE", "TARGETED", 1), wire.ErrNoAck},
		"other status":          {strings.Replace(inline, "acknowledged", "refused", 1), wire.ErrNoAck},
		"name in capitals":      {strings.Replace(inline, "status", "Status", 1), wire.ErrNoAck},
		"no data":               {strings.Replace(inline, "data", "date", 1), wire.ErrNoAck},
		"data null":             {strings.Replace(inline, "{}", "null", 1), wire.ErrNoAck},
		"data a string":         {strings.Replace(inline, "{}", `"x"`, 1), wire.ErrNoAck},
		"wrapped twice":         {`{"payload":{"payload":` + inline + `}}`, wire.ErrNoAck},
		"wrapped null":          {`{"method":"PROXY_RESPONSE","payload":null}`, wire.ErrNoAck},
		"inline":                {inline, nil},
		"with white space":      {" \n" + inline + "\n", nil},
		"wrapped":               {`{"method":"PROXY_RESPONSE","payload":` + inline + `}`, nil},
		"wrapped, other method": {`{"method":"FEDERATE","payload":` + inline + `}`, nil},
		"wrapped, no method":    {`{"payload":` + inline + `}`, nil},
		"inline beside payload": {`{"payload":{},` + inline[1:], nil},
	} {
		t.Run(name, func(t *testing.T) {
			ack, err := wire.ParseAck([]byte(c.body))
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if c.want == nil && (ack.Signature != "s" || string(ack.Data) != "{}") {
				t.Errorf("the acknowledgement is %+v, want signature s and data {}", ack)
			}
		})
	}
}

func TestOutcome8MissingSignatureIsStillAnAcknowledgement(t *testing.T) {
	for _, s := range []string{`{"method":"PROXY_RESPONSE","status":"acknowledged","data":{}}`, `{"method":"PROXY_RESPONSE","status":"acknowledged","data":{},"signature":7}`} {
		if ack, err := wire.ParseAck([]byte(s)); err != nil || ack.Signature != "" {
			t.Errorf("the acknowledgement is %+v, error %v; want no signature", ack, err)
		}
	}
}

// followAck is a good plaintext whose parts the tests replace.
const followAck = `{"following":{"id":"1","createdAt":"2026-05-06T14:17:41.000Z","followerId":"a","followingId":"b","accepted":true,"followerServerUrl":"https://a.example"},"federationUrl":"https://a.example","method":"FEDERATE"}`

func TestFollowAckSchema(t *testing.T) {
	for name, c := range map[string]struct {
		old, with string
		ok        bool
	}{
		"as it is":                   {"", "", true},
		"unknown members":            {`"id"`, `"extra":[1],"id"`, true},
		"accepted false":             {`"accepted":true`, `"accepted":false`, true},
		"accepted null":              {`"accepted":true`, `"accepted":null`, true},
		"accepted absent":            {`"accepted":true,`, ``, true},
		"accepted a string":          {`"accepted":true`, `"accepted":"true"`, false},
		"accepted a number":          {`"accepted":true`, `"accepted":1`, false},
		"server null":                {`"followerServerUrl":"https://a.example"`, `"followerServerUrl":null`, true},
		"server absent":              {`,"followerServerUrl":"https://a.example"`, ``, false},
		"server a number":            {`"followerServerUrl":"https://a.example"`, `"followerServerUrl":1`, false},
		"date as milliseconds":       {`"2026-05-06T14:17:41.000Z"`, `1778077061000`, true},
		"date with offset":           {`2026-05-06T14:17:41.000Z`, `2026-05-06T16:17:41+02:00`, true},
		"date without zone":          {`2026-05-06T14:17:41.000Z`, `2026-05-06T14:17:41`, true},
		"date garbage":               {`2026-05-06T14:17:41.000Z`, `not a date`, false},
		"date empty":                 {`2026-05-06T14:17:41.000Z`, ``, false},
		"date null":                  {`"2026-05-06T14:17:41.000Z"`, `null`, true},
		"date true":                  {`"2026-05-06T14:17:41.000Z"`, `true`, false},
		"date beyond time":           {`"2026-05-06T14:17:41.000Z"`, `1e300`, false},
		"date absent":                {`"createdAt"`, `"created"`, false},
		"id a number":                {`"id":"1"`, `"id":1`, false},
		"id absent":                  {`"id":"1",`, ``, false},
		"follower a number":          {`"followerId":"a"`, `"followerId":1`, false},
		"following absent":           {`"followingId":"b",`, ``, false},
		"federationUrl null":         {`"federationUrl":"https://a.example"`, `"federationUrl":null`, false},
		"another method":             {`"FEDERATE"`, `"FEDERATE_POST"`, false},
		"method absent":              {`,"method":"FEDERATE"`, ``, false},
		"following in capitals":      {`"following"`, `"Following"`, false},
		"following an array":         {followAck, `{"following":[],"federationUrl":"","method":"FEDERATE"}`, false},
		"following null":             {followAck, `{"following":null,"federationUrl":"","method":"FEDERATE"}`, false},
		"not JSON":                   {followAck, `acknowledged`, false},
		"array instead of an object": {followAck, `[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			plain := strings.Replace(followAck, c.old, c.with, 1)
			a, err := wire.ParseFollowAck(plain)
			if c.ok && err != nil || !c.ok && !errors.Is(err, wire.ErrAckContent) {
				t.Errorf("%s: %v", plain, err)
			}
			want := time.Date(2026, 5, 6, 14, 17, 41, 0, time.UTC)
			if c.with == `null` && strings.Contains(c.old, "14:17:41") {
				want = time.UnixMilli(0)
			}
			if c.ok && !a.CreatedAt.Equal(want) {
				t.Errorf("createdAt %s, want %s", a.CreatedAt, want)
			}
		})
	}
}

func TestOutcome6AlreadyThere(t *testing.T) {
	for body, want := range map[string]bool{
		`{"code":"FOLLOW_ALREADY_EXISTS"}`:                     true,
		`{"error":"x","code":"FEDERATED_POST_ALREADY_EXISTS"}`: true,
		`{"code":"RATE_LIMITED"}`:                              false,
		`{"Code":"FOLLOW_ALREADY_EXISTS"}`:                     false,
		`{"code":["FOLLOW_ALREADY_EXISTS"]}`:                   false,
		`FOLLOW_ALREADY_EXISTS`:                                false,
		``:                                                     false,
	} {
		if got := wire.AlreadyThere(409, []byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
		if wire.AlreadyThere(400, []byte(body)) {
			t.Errorf("%s with 400", body)
		}
	}
}

func FuzzAck(f *testing.F) {
	v := vectors(f)
	a := v.server(f, "A")
	for _, c := range v.Acks {
		f.Add([]byte(c.Direct))
		f.Add([]byte(c.Wrapped))
	}
	f.Add([]byte(`{"payload":{"method":"PROXY_RESPONSE","status":"acknowledged","data":{}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ack, err := wire.ParseAck(body)
		if err != nil {
			if !errors.Is(err, wire.ErrNoAck) && !errors.Is(err, wire.ErrNoJSON) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if _, err := ack.Open(a.Open); err != nil && !errors.Is(err, wire.ErrAckContent) {
			t.Errorf("error of another kind: %v", err)
		}
	})
}

func FuzzFollowAck(f *testing.F) {
	f.Add(followAck)
	f.Add(strings.Replace(followAck, `"2026-05-06T14:17:41.000Z"`, `-1`, 1))
	f.Fuzz(func(t *testing.T, plain string) {
		a, err := wire.ParseFollowAck(plain)
		if err != nil {
			if !errors.Is(err, wire.ErrAckContent) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		// What was read must survive being written and read again.
		b, err := json.Marshal(map[string]any{
			"following": map[string]any{
				"id": a.ID, "createdAt": a.CreatedAt.UnixMilli(), "followerId": a.FollowerID,
				"followingId": a.FollowingID, "accepted": a.Accepted, "followerServerUrl": a.FollowerServerURL,
			},
			"federationUrl": a.FederationURL, "method": "FEDERATE",
		})
		if err != nil {
			t.Fatal(err)
		}
		again, err := wire.ParseFollowAck(string(b))
		if err != nil || again.FollowerID != a.FollowerID || again.ID != a.ID || again.CreatedAt.UnixMilli() != a.CreatedAt.UnixMilli() {
			t.Errorf("%q: %+v, %v", plain, again, err)
		}
	})
}
