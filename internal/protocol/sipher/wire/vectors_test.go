package wire_test

import (
	"encoding/json"
	"os"
	"testing"

	"fedpost/internal/protocol/sipher/crypto"
)

type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type vectorFile struct {
	Keys   map[string]map[string]string `json:"keys"`
	Follow struct {
		JobName string `json:"job_name"`
		Job     struct {
			TargetURL string `json:"targetUrl"`
			ServerURL string `json:"serverUrl"`
			Payload   string `json:"payload"`
		} `json:"job_data"`
		Encryption struct {
			Envelope crypto.Envelope `json:"envelope"`
		} `json:"encryption"`
		Request request `json:"request"`
	} `json:"deliver_follow"`
	Acks []struct {
		Label   string `json:"label"`
		Inner   string `json:"inner_payload"`
		Direct  string `json:"direct_response_body"`
		Wrapped string `json:"proxy_wrapped_response_body"`
		Parse   struct {
			Success bool `json:"success"`
			Data    struct {
				Following struct {
					ID          string `json:"id"`
					FollowerID  string `json:"followerId"`
					FollowingID string `json:"followingId"`
					Accepted    *bool  `json:"accepted"`
					Server      string `json:"followerServerUrl"`
				} `json:"following"`
			} `json:"data"`
		} `json:"follow_envelope_parse"`
	} `json:"acks"`
	Negative []struct {
		Label string `json:"label"`
		Body  string `json:"body"`
	} `json:"ack_negative"`
	Proxy struct {
		Inner      string `json:"inner_payload"`
		Encryption struct {
			Envelope crypto.Envelope `json:"envelope"`
		} `json:"encryption"`
		Request request `json:"request_to_proxy"`
	} `json:"proxy"`
	Discover struct {
		Get      json.RawMessage `json:"get_response"`
		Register json.RawMessage `json:"register_request"`
		Response json.RawMessage `json:"register_response"`
	} `json:"discover"`
}

func vectors(t testing.TB) (v vectorFile) {
	t.Helper()
	b, err := os.ReadFile("../testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Acks) == 0 || len(v.Negative) == 0 || v.Proxy.Inner == "" {
		t.Fatal("vectors are incomplete")
	}
	return v
}

// server returns the identity of one of the servers of the vectors.
func (v vectorFile) server(t testing.TB, name string) crypto.Identity {
	t.Helper()
	env := v.Keys[name]
	env[crypto.SettingOrigin] = env["url"]
	id, err := crypto.LoadIdentity(func(s string) string { return env[s] })
	if err != nil {
		t.Fatal(err)
	}
	return id
}
