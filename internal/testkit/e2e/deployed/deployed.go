// Package deployed talks to a stack that template.yaml made, as a client does:
// through API Gateway, signed with AWS Signature 4. Its tests are the only ones
// in which nothing of ours stands in for AWS: the gateway, the event sources and
// the schedule are the server's, and the functions are the built ones.
//
// localstack/test-deployed.sh deploys to a local server and runs them.
package deployed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signing is an HTTP transport that signs requests for API Gateway.
type Signing struct {
	Config aws.Config
	Next   http.RoundTripper
	Now    func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (s Signing) RoundTrip(r *http.Request) (*http.Response, error) {
	signed, err := s.sign(r.Context(), r)
	if err != nil {
		return nil, err
	}
	return s.Next.RoundTrip(signed)
}

func (s Signing) sign(ctx context.Context, r *http.Request) (*http.Request, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	credentials, err := s.Config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	signed := r.Clone(ctx)
	signed.Body = io.NopCloser(bytes.NewReader(body))
	signed.ContentLength = int64(len(body))
	sum := sha256.Sum256(body)
	return signed, v4.NewSigner().SignHTTP(ctx, credentials, signed, hex.EncodeToString(sum[:]), "execute-api", s.Config.Region, s.Now())
}
