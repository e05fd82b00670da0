// Package awstest makes queues and tables for tests on whatever server the
// environment names: DynamoDB Local, LocalStack and its like, or AWS itself.
// Without one, tests that ask for it are skipped, and say how to get one.
//
// Everything made here is fresh, named at random and dropped at the test's end,
// so suites can run side by side on one server.
package awstest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fedpost/internal/engine/awssdk"
)

// Endpoint is the variable that names one server for all services. A service's
// own AWS_ENDPOINT_URL_… goes first, and AWS_ENDPOINT_URL last.
const Endpoint = "FEDPOST_TEST_ENDPOINT"

// Env is the environment for tests: that of the process, with Endpoint for
// services that have none of their own, and with a region and credentials that
// local servers take but AWS does not.
func Env(name string) string {
	value := os.Getenv(name)
	switch name {
	case "AWS_ENDPOINT_URL":
		return cmp.Or(os.Getenv(Endpoint), value)
	case "AWS_REGION":
		return cmp.Or(value, os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	case "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
		return cmp.Or(value, "test")
	}
	return value
}

// Require skips the test unless an endpoint is named for every one of the
// services, by the name they have in AWS_ENDPOINT_URL_….
func Require(t testing.TB, services ...string) {
	t.Helper()
	for _, s := range services {
		if endpoint(s) == "" {
			t.Skipf("no %s server is named: run localstack/up.sh and set the variables it prints, or set %s", s, Endpoint)
		}
	}
}

func endpoint(service string) string {
	return cmp.Or(Env("AWS_ENDPOINT_URL_"+service), Env("AWS_ENDPOINT_URL"))
}

// Local reports whether a service's server is on this machine: a single
// process, which sees at once what was written to it, as AWS does not.
func Local(service string) bool {
	u, err := url.Parse(endpoint(service))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// Config is the configuration for Env, for tests that add middleware to it. It
// gives slow stand-ins on busy machines more time than production gives AWS.
func Config(t testing.TB) aws.Config {
	t.Helper()
	cfg, err := awssdk.Config(Env)
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTPClient = cfg.HTTPClient.(*awshttp.BuildableClient).WithTimeout(30 * time.Second)
	return cfg
}

// SQS returns a client for the SQS server, or skips the test.
func SQS(t testing.TB) *sqs.Client {
	t.Helper()
	return SQSOf(t, Config(t))
}

// SQSOf is SQS with a configuration that was made from Config.
func SQSOf(t testing.TB, cfg aws.Config) *sqs.Client {
	t.Helper()
	Require(t, "SQS")
	client, err := awssdk.SQS(cfg, Env)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// DynamoDB returns a client for the DynamoDB server, or skips the test.
func DynamoDB(t testing.TB) *dynamodb.Client {
	t.Helper()
	return DynamoDBOf(t, Config(t))
}

// DynamoDBOf is DynamoDB with a configuration that was made from Config.
func DynamoDBOf(t testing.TB, cfg aws.Config) *dynamodb.Client {
	t.Helper()
	Require(t, "DYNAMODB")
	client, err := awssdk.DynamoDB(cfg, Env)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// name is one that nothing else has.
func name() string { return "fedpost-test-" + strings.ToLower(rand.Text()[:12]) }

// cleanup runs f at the test's end with a context that is still alive then.
func cleanup(t testing.TB, what string, f func(ctx context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Errorf("drop %s: %v", what, err)
		}
	})
}

// Wait lets d pass. The servers keep their own time, so there is no other way.
func Wait(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited")
	}
}
