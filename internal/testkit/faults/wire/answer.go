package wire

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"fedpost/internal/testkit/faults"
)

// notConnected looks to the SDK like a server that does not take connections.
func notConnected(k Kind) error {
	return injected(k, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
}

// connectionError looks to the SDK like a connection that broke in use.
func connectionError(k Kind, errno syscall.Errno) error {
	return injected(k, &net.OpError{Op: "read", Net: "tcp", Err: errno})
}

func injected(k Kind, err error) error {
	return &smithyhttp.RequestSendError{Err: fmt.Errorf("%w: %s: %w", faults.ErrInjected, k, err)}
}

// throttleCode returns the error code with which a service throttles requests.
func throttleCode(service string) string {
	switch service {
	case "DynamoDB":
		return "ProvisionedThroughputExceededException"
	case "SQS":
		return "RequestThrottled"
	}
	return "ThrottlingException"
}

// answer is a service's error as it comes over the wire.
// https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html
func answer(status int, code string) *smithyhttp.Response {
	body := fmt.Sprintf(`{"__type":%q,"message":"injected"}`, "com.amazonaws.injected#"+code)
	return &smithyhttp.Response{Response: &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"injected"}},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}}
}
