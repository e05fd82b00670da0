package wire

import (
	"context"
	"errors"
	"net/http"
	"syscall"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"

	"fedpost/internal/testkit/faults"
)

// Plan puts requests under a plan, so that faults.Sweep goes over all of them.
// On the wire the plan's kinds are: FailBefore a Timeout, Refuse an answer 400,
// ActThenLose a DropResponse. Append the result to aws.Config.APIOptions.
//
// The SDK's retries are separate requests. A sweep with the retries of production shows
// that a retry makes up for one broken request; a sweep with aws.NopRetryer shows the
// result of a call that fails.
func Plan(p *faults.Plan) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return install(stack, "fedpost.Plan", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			out middleware.DeserializeOutput, metadata middleware.Metadata, err error,
		) {
			acted := false
			operation := awsmiddleware.GetOperationName(ctx)
			fault := p.Do(awsmiddleware.GetServiceID(ctx), operation, func() error {
				acted = true
				out, metadata, err = next.HandleDeserialize(ctx, in)
				return err
			})
			switch {
			case fault == nil, !errors.Is(fault, faults.ErrInjected) && !errors.Is(fault, faults.ErrDead):
				return out, metadata, err
			case errors.Is(fault, faults.ErrDead):
				return middleware.DeserializeOutput{}, metadata, lose(out, fault)
			case acted:
				return middleware.DeserializeOutput{}, metadata, lose(out, connectionError(DropResponse, syscall.ECONNRESET))
			}
			wroteRequest(ctx)
			if errors.Is(fault, faults.ErrRefused) {
				return middleware.DeserializeOutput{RawResponse: answer(http.StatusBadRequest, "ValidationException")}, metadata, nil
			}
			return middleware.DeserializeOutput{}, metadata, connectionError(Timeout, syscall.ETIMEDOUT)
		})
	}
}
