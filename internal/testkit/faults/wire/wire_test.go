package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"fedpost/internal/engine/awssdk"
	"fedpost/internal/testkit/faults/wire"

	"fedpost/internal/testkit/faults"
)

// service is a table that counts what it was made to do.
type service struct{ puts, deletes int }

func (s *service) serve(operation string, _ []byte) wire.Answer {
	switch operation {
	case "PutItem":
		s.puts++
	case "DeleteItem":
		s.deletes++
	}
	return wire.Answer{}
}

func put(client *dynamodb.Client, options ...func(*dynamodb.Options)) error {
	_, err := client.PutItem(context.Background(), &dynamodb.PutItemInput{
		TableName: aws.String("t"), Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}},
	}, options...)
	return err
}

func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

func TestKindsOfFaults(t *testing.T) {
	throttled := func(err error) bool {
		var want *types.ProvisionedThroughputExceededException
		return errors.As(err, &want)
	}
	injected := func(err error) bool { return errors.Is(err, faults.ErrInjected) }
	for _, c := range []struct {
		kind     wire.Kind
		acted    int  // without a retry
		maybe    bool // as the attempt's log sees it
		is       func(error) bool
		heals    bool // by the SDK's retry
		actedAll int  // with retries
	}{
		{wire.FailBefore, 0, false, injected, true, 1},
		{wire.Delay, 1, true, func(err error) bool { return err == nil }, true, 1},
		{wire.Timeout, 0, true, injected, true, 1},
		{wire.DropResponse, 1, true, injected, true, 2},
		{wire.Throttle, 0, false, throttled, true, 1},
		{wire.Break, 0, true, func(err error) bool {
			var want smithy.APIError
			return errors.As(err, &want) && want.ErrorCode() == "InternalServerError"
		}, true, 1},
		{wire.DieAfter, 1, true, func(err error) bool { return errors.Is(err, faults.ErrDead) }, false, 1},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			open := func() (*service, *wire.Wire, *dynamodb.Client) {
				s := &service{}
				w := wire.NewWire(wire.Fault{Service: "DynamoDB", Operation: "PutItem", Request: 1, Kind: c.kind, Delay: time.Hour})
				w.Sleep = func(context.Context, time.Duration) error { return nil }
				cfg := wire.Start(t, s.serve)
				cfg.APIOptions = append(cfg.APIOptions, w.Install)
				return s, w, dynamodb.NewFromConfig(cfg)
			}
			s, w, client := open()
			var log awssdk.AttemptLog
			err := put(client, once, func(o *dynamodb.Options) { o.APIOptions = log.AddTo(o.APIOptions) })
			if !c.is(err) {
				t.Errorf("error %v", err)
			}
			if s.puts != c.acted {
				t.Errorf("the service acted %d times, want %d", s.puts, c.acted)
			}
			if log.MayHaveActed() != c.maybe {
				t.Errorf("may have acted: %t, want %t", log.MayHaveActed(), c.maybe)
			}
			if w.Fired() != 1 {
				t.Errorf("%d faults fired, want 1", w.Fired())
			}
			s, _, client = open()
			if err := put(client); (err == nil) != c.heals {
				t.Errorf("with retries: error %v", err)
			}
			if s.puts != c.actedAll {
				t.Errorf("with retries the service acted %d times, want %d", s.puts, c.actedAll)
			}
		})
	}
}

func TestFaultHitsOnlyTheRequestItIsFor(t *testing.T) {
	s := &service{}
	w := wire.NewWire(
		wire.Fault{Service: "DynamoDB", Operation: "PutItem", Request: 2, Times: 2, Kind: wire.FailBefore},
		wire.Fault{Service: "SQS", Request: 1, Kind: wire.FailBefore},
	)
	cfg := wire.Start(t, s.serve)
	cfg.APIOptions = append(cfg.APIOptions, w.Install)
	client := dynamodb.NewFromConfig(cfg)
	remove := func() error {
		_, err := client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{
			TableName: aws.String("t"), Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}},
		}, once)
		return err
	}
	for i, want := range []bool{true, false, false, true} {
		if err := put(client, once); (err == nil) != want {
			t.Errorf("put %d: error %v", i+1, err)
		}
		if err := remove(); err != nil {
			t.Errorf("delete %d: %v", i+1, err)
		}
	}
	if w.Fired() != 2 {
		t.Errorf("%d faults fired, want 2", w.Fired())
	}
	_, err := sqs.NewFromConfig(cfg).DeleteMessage(context.Background(),
		&sqs.DeleteMessageInput{QueueUrl: aws.String("http://q"), ReceiptHandle: aws.String("h")}, func(o *sqs.Options) { o.Retryer = aws.NopRetryer{} })
	if !errors.Is(err, faults.ErrInjected) {
		t.Errorf("the other client of the wire: error %v", err)
	}
}

func TestDeadProcessMakesNoMoreRequests(t *testing.T) {
	s := &service{}
	w := wire.NewWire(wire.Fault{Request: 1, Kind: wire.DieAfter})
	cfg := wire.Start(t, s.serve)
	cfg.APIOptions = append(cfg.APIOptions, w.Install)
	client := dynamodb.NewFromConfig(cfg)
	for range 3 {
		if err := put(client); !errors.Is(err, faults.ErrDead) {
			t.Errorf("error %v, want %v", err, faults.ErrDead)
		}
	}
	if s.puts != 1 || !w.Dead() {
		t.Errorf("%d puts, dead: %t", s.puts, w.Dead())
	}
	w.Revive()
	if err := put(client); err != nil || s.puts != 2 {
		t.Errorf("after revival: %d puts, error %v", s.puts, err)
	}
}

// Under a plan, faults.Sweep must see every request and each kind must come out
// as documented.
func TestPlanBreaksRequestsOnTheWire(t *testing.T) {
	faults.Sweep(t, func(t *testing.T, p *faults.Plan) {
		s := &service{}
		cfg := wire.Start(t, s.serve)
		cfg.APIOptions = append(cfg.APIOptions, wire.Plan(p))
		client := dynamodb.NewFromConfig(cfg)
		var log awssdk.AttemptLog
		err := put(client, once, func(o *dynamodb.Options) { o.APIOptions = log.AddTo(o.APIOptions) })
		if p.Fired() == 0 {
			if err != nil || s.puts != 1 {
				t.Errorf("%d puts, error %v", s.puts, err)
			}
			return
		}
		if err == nil {
			t.Error("the fault came, but no error")
		}
		if s.puts > 0 && !log.MayHaveActed() {
			t.Error("the service acted and the attempt's log denies it")
		}
		if wantDead := p.Dead(); errors.Is(err, faults.ErrDead) != wantDead {
			t.Errorf("error %v, dead: %t", err, wantDead)
		}
	})
	// Refuse is the one kind after which nothing can have happened.
	s := &service{}
	cfg := wire.Start(t, s.serve)
	cfg.APIOptions = append(cfg.APIOptions, wire.Plan(faults.NewPlan(faults.Fault{Call: 1, Kind: faults.Refuse})))
	var log awssdk.AttemptLog
	err := put(dynamodb.NewFromConfig(cfg), func(o *dynamodb.Options) { o.APIOptions = log.AddTo(o.APIOptions) })
	if err == nil || s.puts != 0 || log.MayHaveActed() || log.Count() != 1 {
		t.Errorf("refused: error %v, %d puts, may have acted: %t, %d attempts", err, s.puts, log.MayHaveActed(), log.Count())
	}
}
