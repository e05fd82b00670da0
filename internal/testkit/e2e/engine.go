// Package e2e runs fedpost whole, as a server that hands it activities and the
// servers that receive them see it: submissions go in through the HTTP API, and
// inboxes that verify signatures with a library that is not ours say what came
// out.
//
// The scenarios use no back door, so each shows a promise to users. Every scenario runs on
// the embedded engine and, if the environment names servers, on PostgreSQL and on SQS and
// DynamoDB, with the same code. Internal calls are only counted, in units that AWS bills.
//
// A new test is a function of a world, and a line in the list of scenarios (e2e_test.go), or
// in that of heavy ones if it keeps the machine busy:
//
//	func refusal(t *testing.T, w *World) {
//		well, gone := w.Remote(), w.Remote()
//		gone.Always(fediverse.Status(410))
//		id := w.Send(note("refusal"), well.URL("/inbox"), gone.URL("/inbox"))
//		s := w.Ends(id, map[string]int{"delivered": 1, "failed": 1})
//		if r := recipient(t, s, gone.URL("/inbox")); r.LastStatus != 410 {
//			t.Errorf("the recipient who is gone: %+v, want status 410", r)
//		}
//		accepted(t, well, noteID("refusal"))
//	}
//
// Time is real here: wait with Ends or Await, never for a fixed time, and never judge how long
// something takes. What is about hours belongs into a package with a clock of its own, such as
// deliver or e2e/sipher.
package e2e

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/engine/sqs"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/engines/pgtest"
)

// Engine is the engine under a world.
type Engine struct {
	Name string
	// Remote: queues and table are on another server, and slower for it.
	Remote bool
	// Messages is how many of a queue are under way at once; 0 is local.PerQueue. The
	// stand-ins for SQS answer few long polls at a time.
	Messages int
	// lapse is how much longer than the visibility timeout of tests the leases of a killed
	// process last.
	lapse   time.Duration
	require func(t testing.TB)
	// environ makes queues and table for a process of its own; nil if it brings
	// its engine along.
	environ func(t testing.TB, typ queue.Type) map[string]string
	open    func(t testing.TB, typ queue.Type) Ports
}

// Require skips the test if the engine needs servers and none are named.
func (e Engine) Require(t testing.TB) {
	t.Helper()
	if e.require != nil {
		e.require(t)
	}
}

// Ports are an engine's queues and table, fresh and empty.
type Ports struct {
	Table table.Table
	Queue func(queue.Name) queue.Queue
	Sweep func(context.Context) error
	// Metered is what AWS says was used; nil where nobody meters.
	Metered func() cost.Snapshot
}

// visibility is shorter than on AWS, where a batch may be throttled for a while
// before it is run, but still longer than an invocation.
const visibility = 30 * time.Second

func configs() map[queue.Name]queue.Config {
	queues := map[queue.Name]queue.Config{}
	for _, n := range queue.Names {
		of := topology.Of(n)
		queues[n] = queue.Config{Visibility: visibility, MaxReceives: of.MaxReceives, Retention: of.Retention}
	}
	return queues
}

// Postgres is the engine on the PostgreSQL database that the environment names (see pgtest).
// Tests ask Require first.
func Postgres() Engine {
	return Engine{
		Name: "postgres", lapse: time.Minute, require: func(t testing.TB) { pgtest.URL(t) },
		environ: func(t testing.TB, typ queue.Type) map[string]string {
			return map[string]string{"DATABASE_URL": pgtest.URL(t), "DATABASE_SCHEMA": pgtest.Schema(t)}
		},
		open: func(t testing.TB, typ queue.Type) Ports {
			e := pgtest.Open(t, postgres.Options{Queues: configs(), Type: typ})
			return Ports{Table: e.Table(), Queue: e.Queue, Sweep: e.Sweep}
		},
	}
}

// Embedded is the engine on a file.
func Embedded() Engine {
	return Engine{Name: "embedded", open: func(t testing.TB, typ queue.Type) Ports {
		e, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "fedpost.db"), sqlite.Options{Queues: configs(), Type: typ})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Errorf("close the engine: %v", err)
			}
		})
		return Ports{Table: e.Table(), Queue: e.Queue, Sweep: e.Sweep}
	}}
}

// AWS is the engine on whatever servers the environment names (see awstest).
// Tests ask Require first.
func AWS() Engine {
	return Engine{Name: "aws", Remote: true, Messages: 30, require: func(t testing.TB) { awstest.Require(t, "SQS", "DYNAMODB") }, environ: awsEnviron, open: func(t testing.TB, typ queue.Type) Ports {
		urls := awstest.QueueURLs(t, awstest.Settings{Visibility: visibility, Type: typ})
		name := awstest.TableName(t)
		counter, cfg := cost.NewMeter(), awstest.Config(t)
		cfg.APIOptions = append(cfg.APIOptions, counter.Install)
		queueService, err := awssdk.SQS(cfg, awstest.Env)
		if err != nil {
			t.Fatal(err)
		}
		tableService, err := awssdk.DynamoDB(cfg, awstest.Env)
		if err != nil {
			t.Fatal(err)
		}
		queues := map[queue.Name]queue.Queue{}
		for n, url := range urls {
			queues[n] = sqs.New(queueService, url, n, typ)
		}
		return Ports{
			Table: dynamodb.New(tableService, name), Queue: func(n queue.Name) queue.Queue { return queues[n] },
			Metered: counter.Snapshot,
		}
	}}
}

// awsEnviron makes queues, a table and a sealing key, and returns the settings
// that name them.
func awsEnviron(t testing.TB, typ queue.Type) map[string]string {
	t.Helper()
	endpoint := cmp.Or(awstest.Env("AWS_ENDPOINT_URL_SQS"), awstest.Env("AWS_ENDPOINT_URL"))
	environ := map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_ENDPOINT_URL_SQS": endpoint,
		"AWS_ENDPOINT_URL_DYNAMODB": cmp.Or(awstest.Env("AWS_ENDPOINT_URL_DYNAMODB"), awstest.Env("AWS_ENDPOINT_URL")),
		"AWS_ENDPOINT_URL_KMS":      cmp.Or(awstest.Env("AWS_ENDPOINT_URL_KMS"), endpoint),
	}
	for _, name := range []string{"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		environ[name] = awstest.Env(name)
	}
	client, err := awssdk.KMS(awstest.Config(t), func(name string) string { return cmp.Or(environ[name], awstest.Env(name)) })
	if err != nil {
		t.Fatal(err)
	}
	key, err := client.CreateKey(t.Context(), &kms.CreateKeyInput{})
	if err != nil {
		t.Skipf("fedpost cannot seal signing keys: the server at %s makes no KMS key: %v", environ["AWS_ENDPOINT_URL_KMS"], err)
	}
	environ["KMS_KEY_ID"] = aws.ToString(key.KeyMetadata.KeyId)
	environ["TABLE_NAME"] = awstest.TableName(t)
	for n, url := range awstest.QueueURLs(t, awstest.Settings{Visibility: visibility, Type: typ}) {
		environ["QUEUE_URL_"+strings.ToUpper(strings.ReplaceAll(string(n), "-", "_"))] = url
	}
	return environ
}
