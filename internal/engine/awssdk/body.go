package awssdk

import (
	"context"
	"io"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// readOnlyBodies hides the method WriteTo of the requests' bodies.
//
// When net/http has sent a body, it reads on to see that nothing follows. By then the
// answer may be there, and the SDK may have closed the body. A closed body's WriteTo returns
// io.EOF, which net/http takes for a failed write: it closes the connection before the
// answer is read ("use of closed network connection"). The SDK then makes the call
// again. The message of a receive stays hidden from everybody, a send is done twice, and a
// conditional write conflicts with itself. It happens where there is little processor time,
// as in a small Lambda function. A closed body's Read says the same, and net/http
// takes that for the end.
//
// https://github.com/aws/aws-sdk-go-v2/issues/2737
func readOnlyBodies(stack *middleware.Stack) error {
	// The body is made in the step Serialize, by a middleware that is already there.
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("fedpost.ReadOnlyBody", func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
		middleware.SerializeOutput, middleware.Metadata, error,
	) {
		if r, ok := in.Request.(*smithyhttp.Request); ok {
			if body, ok := r.GetStream().(io.ReadSeeker); ok {
				plain, err := r.SetStream(struct{ io.ReadSeeker }{body})
				if err != nil {
					return middleware.SerializeOutput{}, middleware.Metadata{}, err
				}
				in.Request = plain
			}
		}
		return next.HandleSerialize(ctx, in)
	}), middleware.After)
}
