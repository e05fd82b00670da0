package config

import (
	"crypto/rand"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/servers/circuit"
)

// deployed is a complete environment of a function.
func deployed(change ...string) map[string]string {
	e := map[string]string{"TABLE_NAME": "fedpost", "KMS_KEY_ID": "alias/fedpost"}
	for _, role := range []string{"HIGH", "NORMAL", "LOW", "ORDERED", "DEAD", "DEAD_ORDERED"} {
		e["QUEUE_URL_"+role] = "https://sqs.eu-central-1.amazonaws.com/123456789012/" + role
		if strings.HasSuffix(role, "ORDERED") {
			e["QUEUE_URL_"+role] += ".fifo"
		}
	}
	for i := 0; i < len(change); i += 2 {
		e[change[i]] = change[i+1]
	}
	return e
}

func TestEveryMissingVariableIsReportedAtOnce(t *testing.T) {
	var c Deliver
	err := From(&c, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	want := map[string]bool{}
	for name := range deployed() {
		want[name] = true
	}
	got := map[string]bool{}
	for _, f := range e.Faults {
		got[f.Variable] = true
		if f.Wrong != "is not set" || !strings.HasPrefix(f.Fix, "set it to ") {
			t.Errorf("unclear fault: %s", f)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

func TestACompleteEnvironmentHasSafeDefaults(t *testing.T) {
	var c Deliver
	if err := From(&c, deployed()); err != nil {
		t.Fatal(err)
	}
	if c.Outbound.Timeout != 15*time.Second || c.Outbound.PlainHTTP || len(c.Outbound.Allow) > 0 {
		t.Errorf("outbound: %+v", c.Outbound)
	}
	if got := c.Queues.URLs(); len(got) != len(queue.Names) || !strings.HasSuffix(got[queue.DeadOrdered], "/DEAD_ORDERED.fifo") {
		t.Errorf("queues: %v", got)
	}
	if c.Circuit.Streak != 5 || c.Circuit.Share != 0.7 || c.Circuit.Sample != 10 || c.Circuit.Window != 5*time.Minute {
		t.Errorf("circuit: %+v", c.Circuit)
	}
}

func TestAnEmptyVariableMeansItsDefault(t *testing.T) {
	var c Enqueue
	if err := From(&c, deployed("DEDUPLICATION_TTL", "", "DEDUPLICATION_FALLBACK", "", "OUTBOUND_ALLOW", "")); err != nil {
		t.Fatal(err)
	}
	if c.Deduplication.TTL != time.Hour || c.Deduplication.Fallback != "open" {
		t.Errorf("got %+v", c.Deduplication)
	}
}

func TestWhatCannotBeRightIsRefused(t *testing.T) {
	tests := []struct{ variable, value, says string }{
		{"DEDUPLICATION_TTL", "1 hour", `is "1 hour", which is not a duration`},
		{"DEDUPLICATION_TTL", "-5m", "a negative duration"},
		{"DEDUPLICATION_TTL", "0", "less than 1s"},
		{"DEDUPLICATION_TTL", "P31D", "more than 30d"},
		{"DEDUPLICATION_FALLBACK", "maybe", "set it to open or closed"},
		{"DEDUPLICATION_PREFIX", "a#b", "letters, digits"},
		{"MAX_RECIPIENTS", "many", "not a whole number"},
		{"MAX_RECIPIENTS", "0", "less than 1"},
		{"MAX_RECIPIENTS", "99999999999999999999", "not a whole number"},
		{"MAX_ACTIVITY_BYTES", "400000", "more than 307200"},
		{"PRIORITY_DEFAULT", "urgent", "high, normal or low"},
		{"PRIORITY_LOW_TYPES", "Like, Delete", "PRIORITY_HIGH_TYPES lists too"},
		{"RETRY_POLICY", "never", "activitypub, sipher or ldp"},
		{"RETRY_FACTOR", "0.5", "less than 1"},
		{"RETRY_FACTOR", "NaN", "not a number"},
		{"OUTBOUND_PLAIN_HTTP", "yes", "neither true nor false"},
		{"OUTBOUND_ALLOW", "10.0.0.0/8,localhost", "not a list of CIDR prefixes because of localhost"},
		{"OUTBOUND_PROXY", "proxy.example:3128", "neither http://HOST:PORT nor socks5://HOST:PORT"},
		{"OUTBOUND_PROXY", "https://proxy.example:3128", "neither http://HOST:PORT nor socks5://HOST:PORT"},
		{"OUTBOUND_PROXY", "http://proxy.example", "neither http://HOST:PORT nor socks5://HOST:PORT"},
		{"OUTBOUND_ONION_PROXY", "http://127.0.0.1:9050", "set it to one of SOCKS5"},
		{"USER_AGENT", "a\r\nX-Evil: 1", "control character"},
		{"QUEUE_URL_LOW", "fedpost-low", "not an absolute URL"},
		{"QUEUE_URL_LOW", "https://sqs.eu-central-1.amazonaws.com/123456789012/HIGH", "same queue as QUEUE_URL_HIGH"},
		{"BETTER_AUTH_URL", "https://social.example/", "trailing slash"},
		{"FEDERATION_PUBLIC_KEY", "AAAA", "cannot be used"},
		{"SIPHER_THREAT_POLICIES", `{"BOREDOM":{}}`, "BOREDOM"},
	}
	for _, tt := range tests {
		t.Run(tt.variable+"="+tt.value, func(t *testing.T) {
			var c Enqueue
			err := From(&c, deployed(tt.variable, tt.value))
			if err == nil {
				t.Fatal("accepted")
			}
			if s := err.Error(); !strings.Contains(s, tt.variable+" ") || !strings.Contains(s, tt.says) {
				t.Errorf("got %q, want it to name %s and say %q", s, tt.variable, tt.says)
			}
		})
	}
}

func TestOneVariableHasOneFault(t *testing.T) {
	var c Enqueue
	err := From(&c, deployed("DEDUPLICATION_TTL", "soon", "MAX_BATCH", "x", "TABLE_NAME", ""))
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Faults) != 3 {
		t.Fatalf("got %v, want 3 faults", err)
	}
}

func TestNoSecretIsInAnError(t *testing.T) {
	const secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ"
	var c Local
	err := From(&c, map[string]string{
		"FEDERATION_PRIVATE_KEY": secret, "FEDERATION_ENCRYPTION_PRIVATE_KEY": secret, "FEDPOST_API_TOKEN": secret[:8],
		"OUTBOUND_PROXY": "ftp://alice:" + secret + "@proxy.example:1",
	})
	if err == nil || strings.Contains(err.Error(), secret[:8]) {
		t.Errorf("got %v", err)
	}
}

// Two roles with the same token, or roles without an operator's, are a mistake.
func TestRolesHaveDifferentTokens(t *testing.T) {
	const one, two = "a token of sixteen", "another of sixteen"
	for _, c := range []struct{ operate, send, app, wrong string }{
		{one, two, "", ""},
		{one, "", two, ""},
		{"", one, "", "FEDPOST_SEND_TOKEN is set without FEDPOST_API_TOKEN"},
		{"", "", one, "FEDPOST_APP_TOKEN is set without FEDPOST_API_TOKEN"},
		{one + "\n", "", "", "FEDPOST_API_TOKEN begins or ends with a space"},
		{one + "é", "", "", "has a character that is not printable ASCII"},
		{one, one, "", "FEDPOST_SEND_TOKEN is the same as FEDPOST_API_TOKEN"},
		{one, two, two, "FEDPOST_APP_TOKEN is the same as FEDPOST_SEND_TOKEN"},
		{one, two[:8], "", "FEDPOST_SEND_TOKEN has fewer than 16 characters"},
	} {
		var l Local
		err := From(&l, map[string]string{"FEDPOST_API_TOKEN": c.operate, "FEDPOST_SEND_TOKEN": c.send, "FEDPOST_APP_TOKEN": c.app})
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Programs that only answer strangers or send them requests read no private key.
func TestOnlyWhatSignsReadsSecrets(t *testing.T) {
	for _, tt := range []struct {
		cfg  any
		want []string
	}{
		{&Enqueue{}, nil},
		{&HealthCheck{}, nil},
		{&Deliver{}, []string{"FEDERATION_PRIVATE_KEY", "FEDERATION_ENCRYPTION_PRIVATE_KEY"}},
	} {
		var got []string
		for _, s := range Settings(tt.cfg) {
			if s.Secret && s.Concern != "Outbound" { // a proxy's password signs nothing
				got = append(got, s.Name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%T reads %q, want %q", tt.cfg, got, tt.want)
		}
	}
}

// member is deployed with an identity in a Sipher network.
func member(t *testing.T, change ...string) map[string]string {
	t.Helper()
	made, err := crypto.GenerateIdentity(rand.Reader, "https://social.example")
	if err != nil {
		t.Fatal(err)
	}
	e := deployed()
	for _, s := range made {
		e[s.Name] = s.Value
	}
	for i := 0; i < len(change); i += 2 {
		e[change[i]] = change[i+1]
	}
	return e
}

func TestAnIdentityIsKnownWithoutItsPrivateKeys(t *testing.T) {
	var c Enqueue
	if err := From(&c, member(t, "FEDERATION_PRIVATE_KEY", "", "FEDERATION_ENCRYPTION_PRIVATE_KEY", "")); err != nil {
		t.Fatal(err)
	}
	got, err := c.SipherIdentity.Load()
	if err != nil || got.Ready() != nil || got.Origin != "https://social.example" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Each half of an identity is a concern of its own, yet each fault is reported
// once.
func TestEveryFaultOfAnIdentityIsReportedOnce(t *testing.T) {
	other := member(t)
	env := member(t,
		"BETTER_AUTH_URL", "https://social.example/", "FEDERATION_PUBLIC_KEY", "AAAA",
		"FEDERATION_ENCRYPTION_PUBLIC_KEY", other["FEDERATION_ENCRYPTION_PUBLIC_KEY"], "FEDERATION_PRIVATE_KEY", "")
	for _, tt := range []struct {
		cfg  any
		want map[string]string
	}{
		{&Enqueue{}, map[string]string{"BETTER_AUTH_URL": "slash", "FEDERATION_PUBLIC_KEY": "32-byte"}},
		{&Deliver{}, map[string]string{
			"BETTER_AUTH_URL": "slash", "FEDERATION_PUBLIC_KEY": "32-byte", "FEDERATION_PRIVATE_KEY": "is missing",
			"FEDERATION_ENCRYPTION_PUBLIC_KEY": "does not belong to FEDERATION_ENCRYPTION_PRIVATE_KEY",
		}},
	} {
		e, ok := errors.AsType[*Error](From(tt.cfg, env))
		if !ok || len(e.Faults) != len(tt.want) {
			t.Errorf("%T: got %v, want %d faults", tt.cfg, e, len(tt.want))
			continue
		}
		for _, f := range e.Faults {
			if says := tt.want[f.Variable]; says == "" || !strings.Contains(f.Wrong, says) {
				t.Errorf("%T: %s, want it to say %q", tt.cfg, f, says)
			}
		}
	}
}

func TestDurationsAsOperatorsWriteThem(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "3600": time.Hour, "0": 0,
		"PT1H": time.Hour, "P1D": 24 * time.Hour, "P1M": 30 * 24 * time.Hour, "30d": 30 * 24 * time.Hour, "PT0.5S": 500 * time.Millisecond,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "d", "soon", "-1s", "-PT1S", "9223372036854775807", "P1000000Y"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}

func TestTypesHavePriorities(t *testing.T) {
	var c Enqueue
	if err := From(&c, deployed("PRIORITY_HIGH_TYPES", " Delete , Move,")); err != nil {
		t.Fatal(err)
	}
	got := c.Priorities.ByType()
	if got["Delete"] != activity.High || got["Move"] != activity.High || got["Like"] != activity.Low || len(got) != 8 {
		t.Errorf("got %v", got)
	}
}

func TestARetryPolicyIsAPresetWithChanges(t *testing.T) {
	var c Deliver
	if err := From(&c, deployed("RETRY_POLICY", "ldp", "RETRY_TRIES", "7", "RETRY_FIRST_WAIT", "0", "RETRY_PARK", "true")); err != nil {
		t.Fatal(err)
	}
	got, err := c.Retry.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := retry.LDP()
	want.Tries, want.First, want.Park, want.Circuit = 7, 0, true, true
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTheDefaultsAreThoseOfTheDomain(t *testing.T) {
	var c Deliver
	if err := From(&c, deployed()); err != nil {
		t.Fatal(err)
	}
	policy, err := c.Retry.Build()
	if err != nil || policy != retry.ActivityPub() {
		t.Errorf("policy %+v, %v", policy, err)
	}
	if got, want := c.Circuit.Rules(policy.GiveUp), circuit.Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("rules\n%+v, want\n%+v", got, want)
	}
	if c.Limits.Retention != enqueue.DefaultRetention {
		t.Errorf("retention %s", c.Limits.Retention)
	}
}

func TestNoPolicyTriesMoreOftenThanAQueueHandsOut(t *testing.T) {
	for _, s := range Settings(&Deliver{}) {
		if s.Name != "RETRY_TRIES" {
			continue
		}
		most, err := parseInt(s.Max)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range topology.Sources {
			if limit := topology.Of(n).MaxReceives; most >= limit {
				t.Errorf("%d tries on %s, which hands a message out %d times", most, n, limit)
			}
		}
	}
}

// TestUpPassesEachConcernOnThatItReads to the three functions, which share their names.
func TestUpPassesEachConcernOnThatItReads(t *testing.T) {
	var l Local
	l.Limits.Batch, l.Concurrency.Probes, l.Sipher.Checks, l.Outbound.UserAgent = 7, 8, 9, "me"
	if e := l.Enqueue(); e.Limits != l.Limits || e.Sipher != l.Sipher || e.Outbound.UserAgent != "me" || e.Table.Name != "" {
		t.Errorf("enqueue reads %+v", e)
	}
	if d := l.Deliver(); d.Concurrency != l.Concurrency || d.Limits != l.Limits || d.Outbound.UserAgent != "me" {
		t.Errorf("deliver reads %+v", d)
	}
	if h := l.HealthCheck(); h.Concurrency != l.Concurrency || h.Sipher != l.Sipher {
		t.Errorf("the scheduled function reads %+v", h)
	}
}
