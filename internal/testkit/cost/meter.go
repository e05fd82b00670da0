package cost

import (
	"context"
	"sync"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// Op is one operation of a service, as the SDK names them: {"SQS", "SendMessage"}.
type Op struct{ Service, Operation string }

// Usage is what calls of an operation used.
type Usage struct {
	// Requests is the number of requests, retries included.
	Requests int
	// Failures is the number of failed requests. A condition that did not hold is a
	// failure.
	Failures int
	// PayloadUnits is how many requests SQS bills: one for every 64 KiB sent or
	// received, begun ones included. 0 for other services.
	// https://aws.amazon.com/sqs/pricing/
	PayloadUnits int
	// ReadUnits and WriteUnits are DynamoDB's capacity units, indexes included.
	// DynamoDB does not report the units of a write whose condition failed: such a
	// write counts as one unit, which is right for items up to 1 KB.
	ReadUnits, WriteUnits float64
}

// Meter counts the calls of all clients that it is installed in, as middleware of the SDK,
// in the units that AWS bills. It is safe for concurrent use.
type Meter struct {
	mu    sync.Mutex
	usage map[Op]Usage
}

// NewMeter returns a Meter with all counts at zero.
func NewMeter() *Meter { return &Meter{usage: make(map[Op]Usage)} }

// Install adds the meter to a client: append Install to aws.Config.APIOptions.
func (c *Meter) Install(stack *middleware.Stack) error {
	if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("fedpost.CountCall", c.call), middleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("fedpost.CountRequest", c.request), "Retry", middleware.After)
}

// call runs once per call of the SDK, whatever the retries. It asks DynamoDB for the
// consumed capacity and reads the capacity from the answer.
func (c *Meter) call(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	ctx = middleware.WithStackValue(ctx, sentKey{}, payloadSent(in.Parameters))
	in.Parameters = askForCapacity(in.Parameters)
	out, metadata, err := next.HandleInitialize(ctx, in)
	var u Usage
	if err != nil {
		u.WriteUnits = unitsOfFailure(err)
	} else {
		u.ReadUnits, u.WriteUnits = unitsOf(out.Result)
		u.WriteUnits = max(u.WriteUnits, leastOf(in.Parameters))
		if bytes, ok := payloadReceived(out.Result); ok {
			// The request was counted as one unit already.
			u.PayloadUnits = units(bytes) - 1
		}
	}
	c.add(ctx, u)
	return out, metadata, err
}

type sentKey struct{}

// request runs once per request of a call, retries included.
func (c *Meter) request(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (
	middleware.FinalizeOutput, middleware.Metadata, error,
) {
	out, metadata, err := next.HandleFinalize(ctx, in)
	u := Usage{Requests: 1}
	if err != nil {
		u.Failures = 1
	}
	if awsmiddleware.GetServiceID(ctx) == "SQS" {
		bytes, _ := middleware.GetStackValue(ctx, sentKey{}).(int)
		u.PayloadUnits = units(bytes)
	}
	c.add(ctx, u)
	return out, metadata, err
}

func (c *Meter) add(ctx context.Context, u Usage) {
	op := Op{awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage[op] = c.usage[op].plus(u)
}

// units is how many requests SQS bills for a payload.
func units(bytes int) int {
	const unit = 64 << 10
	return max(1, (bytes+unit-1)/unit)
}
