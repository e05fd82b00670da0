// Package awstest makes queues and tables for tests on the server that the
// environment names: DynamoDB Local, LocalStack, a similar server, or AWS itself. If the
// environment names no server, the tests that need a server are skipped, and the skip
// message says how to start one.
//
// Every queue and table made here has a random name and is deleted at the test's end,
// so suites can run side by side on one server.
package awstest

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
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

// Endpoint is the variable that names one server for all services. A service's own
// variable, AWS_ENDPOINT_URL_…, has precedence over Endpoint, and Endpoint has
// precedence over AWS_ENDPOINT_URL.
const Endpoint = "FEDPOST_TEST_ENDPOINT"

// Env returns a variable of the environment for tests. It is the environment of the
// process with two additions: Endpoint serves every service without an endpoint of its
// own, and the defaults of region and credentials are accepted by local servers but not
// by AWS.
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

// Require skips the test unless the environment names an endpoint for every one of the
// services. A service is called as in AWS_ENDPOINT_URL_….
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

// Local reports whether a service's server runs on this machine. Such a server is a
// single process, so a read sees every earlier write at once; on AWS it may not.
func Local(service string) bool {
	u, err := url.Parse(endpoint(service))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// patience is the time-out of a request to a server, and of making a connection.
const patience = 5 * time.Minute

// Config returns the configuration of clients for Env, for tests that add middleware
// to the configuration. Its time-outs are far longer than in production, because local
// servers on busy machines are slower than AWS. A request that is cut for real is a fault
// that no test has planned: what a receive has hidden by then stays hidden for as long as
// the engine's queues hide it.
func Config(t testing.TB) aws.Config {
	t.Helper()
	cfg, err := awssdk.Config(Env)
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTPClient = cfg.HTTPClient.(*awshttp.BuildableClient).WithTimeout(patience).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = patience })
	return cfg
}

// SQS returns a client for the SQS server, or skips the test.
func SQS(t testing.TB) *sqs.Client {
	t.Helper()
	return SQSOf(t, Config(t))
}

// SQSOf is like SQS, with a configuration that was made from Config.
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

// DynamoDBOf is like DynamoDB, with a configuration that was made from Config.
func DynamoDBOf(t testing.TB, cfg aws.Config) *dynamodb.Client {
	t.Helper()
	Require(t, "DYNAMODB")
	client, err := awssdk.DynamoDB(cfg, Env)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// name returns a new random name for a queue or table.
func name() string { return "fedpost-test-" + strings.ToLower(rand.Text()[:12]) }

// cleanup runs f at the test's end. The test's own context is cancelled by then, so f
// gets a context that is not.
func cleanup(t testing.TB, what string, f func(ctx context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f(ctx); err != nil {
			t.Errorf("drop %s: %v", what, err)
		}
	})
}

// Wait sleeps for d. The servers have their own clocks, which a test cannot set.
func Wait(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test ended while it waited")
	}
}
