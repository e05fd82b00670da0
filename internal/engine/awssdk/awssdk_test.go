package awssdk

import (
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) Getenv {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestEveryMissingVariableIsNamed(t *testing.T) {
	_, err := Config(env("AWS_ACCESS_KEY_ID", "a"))
	if err == nil || !strings.Contains(err.Error(), "AWS_REGION") || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("error %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("error %v names a variable that is set", err)
	}
}

func TestConfigIsWhatLambdaSets(t *testing.T) {
	cfg, err := Config(env("AWS_REGION", "eu-west-1", "AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "b", "AWS_SESSION_TOKEN", "c"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil || got.AccessKeyID != "a" || got.SecretAccessKey != "b" || got.SessionToken != "c" || cfg.Region != "eu-west-1" {
		t.Errorf("region %s, credentials %+v, error %v", cfg.Region, got, err)
	}
}

func TestEndpointOfAServiceGoesFirst(t *testing.T) {
	e := env("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:2",
		"AWS_REGION", "r", "AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "b")
	cfg, err := Config(e)
	if err != nil {
		t.Fatal(err)
	}
	q, err := SQS(cfg, e)
	if err != nil || *q.Options().BaseEndpoint != "http://127.0.0.1:2" {
		t.Errorf("SQS at %v, error %v", q.Options().BaseEndpoint, err)
	}
	d, err := DynamoDB(cfg, e)
	if err != nil || *d.Options().BaseEndpoint != "http://127.0.0.1:1" {
		t.Errorf("DynamoDB at %v, error %v", d.Options().BaseEndpoint, err)
	}
	if k, err := KMS(cfg, env()); err != nil || k.Options().BaseEndpoint != nil {
		t.Errorf("KMS without an endpoint at %v, error %v", k.Options().BaseEndpoint, err)
	}
}

func TestEndpointThatIsNoURLIsRefused(t *testing.T) {
	for _, bad := range []string{"localhost:4566", "127.0.0.1", "ftp://x", "http://"} {
		e := env("AWS_REGION", "r", "AWS_ACCESS_KEY_ID", "a", "AWS_SECRET_ACCESS_KEY", "b", "AWS_ENDPOINT_URL_SQS", bad)
		cfg, err := Config(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := SQS(cfg, e); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL_SQS") {
			t.Errorf("%s: error %v", bad, err)
		}
	}
}

func TestWholeCallEndsWithinAFunctionsTime(t *testing.T) {
	var worst time.Duration = attempts * attemptTimeout
	for n := range attempts - 1 {
		for range 100 {
			if d := backOff(n); d <= 0 || d > longestWait+time.Millisecond {
				t.Fatalf("back-off %d is %s", n, d)
			}
		}
		worst += longestWait
	}
	if worst > 20*time.Second {
		t.Errorf("a call may take %s, and the enqueue function has 29 s for several", worst)
	}
}
