package awssdk

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
)

// slowWriter is a connection on which the write of a request's body returns only after
// answered is closed, as on a machine that has no time for the goroutine that writes.
type slowWriter struct {
	net.Conn
	answered <-chan struct{}
}

func (c slowWriter) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if strings.HasPrefix(string(b), "{") {
		<-c.answered
	}
	return n, err
}

// TestAnAnswerThatComesWhileTheRequestIsStillBeingWrittenIsNotLost: a request that is answered so
// soon was carried out. If the answer were lost, the call would be made a second time.
func TestAnAnswerThatComesWhileTheRequestIsStillBeingWrittenIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered, written := make(chan struct{}), make(chan struct{})
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			r, err := http.ReadRequest(bufio.NewReader(theirs))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Error(err)
			}
			const body = `{"QueueUrl":"https://sqs.example/1/q"}`
			fmt.Fprintf(theirs, "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", len(body))
			<-written
			fmt.Fprint(theirs, body)
		}()
		cfg, err := Config(env("AWS_REGION", "us-east-1", "AWS_ACCESS_KEY_ID", "test", "AWS_SECRET_ACCESS_KEY", "test"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.BaseEndpoint = aws.String("http://sqs.example")
		cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
		cfg.HTTPClient = cfg.HTTPClient.(*awshttp.BuildableClient).WithTransportOptions(func(tr *http.Transport) {
			tr.Proxy = nil
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return slowWriter{ours, answered}, nil }
		})
		cfg.APIOptions = append(cfg.APIOptions, func(stack *middleware.Stack) error {
			return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("starve", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
				middleware.DeserializeOutput, middleware.Metadata, error,
			) {
				out, metadata, err := next.HandleDeserialize(ctx, in)
				// The headers of the answer are there, its body is not.
				close(answered)
				synctest.Wait()
				close(written)
				return out, metadata, err
			}), middleware.After)
		})
		out, err := sqs.NewFromConfig(cfg).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
		if err != nil {
			t.Fatal(err)
		}
		if got := aws.ToString(out.QueueUrl); got != "https://sqs.example/1/q" {
			t.Errorf("the answer is %q", got)
		}
	})
}
