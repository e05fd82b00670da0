package keys

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// TestAJWKWhosePartsDoNotBelongTogetherIsRefused, without a word of the key.
func TestAJWKWhosePartsDoNotBelongTogetherIsRefused(t *testing.T) {
	members := func(typ Type) map[string]any {
		signer, err := generate(typ)
		if err != nil {
			t.Fatal(err)
		}
		text, err := jose.JSONWebKey{Key: signer}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	rsa, ed := members(RSA), members(Ed25519)
	for _, c := range []struct {
		key      map[string]any
		member   string
		value    any // nil: the member is left out
		mentions string
	}{
		{rsa, "", nil, ""},
		{rsa, "d", nil, "public key"},
		{rsa, "p", nil, "p and q"},
		{rsa, "q", rsa["p"], "belong together"},
		{rsa, "e", "AAAA", "belong together"},
		{rsa, "e", strings.Repeat("_", 400), "n, e, d"},
		{rsa, "n", "AQ", "bits"},
		{rsa, "n", nil, "bits"},
		{rsa, "n", "!", "does not parse"},
		{rsa, "d", "AQ", "belong together"},
		{rsa, "d", 7, "does not parse"},
		{rsa, "oth", []any{}, "and not oth"},
		{rsa, "kty", "oct", "neither"},
		{ed, "", nil, ""},
		{ed, "x", nil, "public half"},
		{ed, "d", ed["x"], "public half"},
		{ed, "d", "AQ", "does not parse"},
		{ed, "crv", "X25519", "neither"},
	} {
		changed := map[string]any{}
		for k, v := range c.key {
			changed[k] = v
		}
		if changed[c.member] = c.value; c.value == nil {
			delete(changed, c.member)
		}
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := Parse(string(text)); {
		case c.mentions == "" && err != nil:
			t.Errorf("%s as it is: %v", c.key["kty"], err)
		case c.mentions != "" && (!errors.Is(err, ErrBadKey) || !strings.Contains(err.Error(), c.mentions)):
			t.Errorf("%s with %s %.20v: %v, want it to say %q", c.key["kty"], c.member, c.value, err, c.mentions)
		case err != nil && strings.Contains(err.Error(), c.key["d"].(string)[:8]):
			t.Errorf("the key is in %v", err)
		}
	}
}
