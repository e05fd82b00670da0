package engines

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"fedpost/internal/engine/dynamodb"
	"fedpost/internal/engine/queue"
	sqsqueue "fedpost/internal/engine/sqs"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/faults/wire"
)

// AWS returns the engine of SQS and DynamoDB at the servers that the environment names
// (see awstest). The SDK retries as in production.
func AWS() Engine { return remote("aws", false, faults.ActThenLose) }

// AWSFIFO is AWS with FIFO queues only, as the template makes them by default.
func AWSFIFO() Engine {
	e := AWS()
	e.Name, e.Type = "aws-fifo", queue.FIFO
	return e
}

// AWSWithoutRetries returns the engine AWS without the SDK's retries of a request that the
// plan has broken, so that one broken request makes its call fail. The SDK still retries what
// no plan has broken, such as a request that meets a connection which the server has just
// closed because a busy machine left it unused.
func AWSWithoutRetries() Engine {
	return remote("aws-without-retries", true, faults.FailBefore, faults.ActThenLose, faults.DieAfter)
}

func remote(name string, once bool, kinds ...faults.Kind) Engine {
	return Engine{
		// The engine of maps has each call broken in every way; here half an hour would go by.
		Name: name, Remote: true, kinds: kinds, thin: 1,
		require: func(t testing.TB) {
			awstest.Require(t, "SQS", "DYNAMODB")
			if !awstest.Local("SQS") {
				t.Skip("needs a queue that shows at once what was sent, as AWS does not")
			}
		},
		open: func(t testing.TB, o Options) Instance {
			s := &services{TB: t, typ: o.Type, once: once, table: awstest.TimelessTable(t), urls: map[queue.Name]func() (string, error){}, queues: map[queue.Name]*virtual{}}
			client := awstest.SQS(t)
			for _, n := range queue.Names {
				s.urls[n] = sync.OnceValues(func() (string, error) { return awstest.LoneQueueURL(t, n, o.Type, hidden) })
				s.queues[n] = newVirtual(o.Type.Of(n), s.opener(client, n), o.Now, o.Queues[n].Visibility)
			}
			return s
		},
	}
}

// hidden is the visibility timeout of the servers' queues: longer than any test runs.
const hidden = 2 * time.Hour

// services is an instance of the AWS engine.
type services struct {
	testing.TB
	once   bool // the SDK retries nothing that a plan has broken
	typ    queue.Type
	table  string
	urls   map[queue.Name]func() (string, error) // which make the queues
	queues map[queue.Name]*virtual
}

// opener returns a function that opens the queue n with a client.
func (s *services) opener(client *sqs.Client, n queue.Name) opener {
	return sync.OnceValues(func() (queue.Queue, error) {
		url, err := s.urls[n]()
		return sqsqueue.New(client, url, n, s.typ), err
	})
}

// Queue implements Instance.
func (s *services) Queue(n queue.Name) queue.Queue { return s.queues[n] }

// Table implements Instance.
func (s *services) Table() table.Table { return dynamodb.New(awstest.DynamoDB(s), s.table) }

// Under implements Instance.
func (s *services) Under(p *faults.Plan) (func(queue.Name) queue.Queue, table.Table) {
	cfg := awstest.Config(s)
	cfg.APIOptions = append(cfg.APIOptions, wire.Plan(p))
	if s.once {
		cfg.Retryer = unplanned(cfg.Retryer)
	}
	client := awstest.SQSOf(s, cfg)
	queues := make(map[queue.Name]queue.Queue, len(s.urls))
	for n, q := range s.queues {
		queues[n] = through{q, s.opener(client, n)}
	}
	return func(n queue.Name) queue.Queue { return queues[n] }, dynamodb.New(awstest.DynamoDBOf(s, cfg), s.table)
}

// unplanned returns retryers that retry what the given ones retry, unless a plan has broken
// it.
func unplanned(all func() aws.Retryer) func() aws.Retryer {
	return func() aws.Retryer { return onlyReal{all().(aws.RetryerV2)} }
}

type onlyReal struct{ aws.RetryerV2 }

// IsErrorRetryable implements aws.Retryer.
func (r onlyReal) IsErrorRetryable(err error) bool {
	return !errors.Is(err, faults.ErrInjected) && !errors.Is(err, faults.ErrDead) && r.RetryerV2.IsErrorRetryable(err)
}
