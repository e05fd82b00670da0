package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// service is API Gateway's name in signatures.
const service = "execute-api"

// RegionOf returns the region of an API Gateway host, such as
// abc123.execute-api.eu-central-1.amazonaws.com, and whether it is one.
func RegionOf(host string) (region string, ok bool) {
	labels := strings.Split(host, ".")
	if len(labels) < 5 || labels[1] != service || labels[3] != "amazonaws" {
		return "", false
	}
	return labels[2], true
}

// Transport signs requests with AWS credentials (Signature Version 4) and passes them on;
// API Gateway recognises the caller by the signature. A Bearer token would be one more
// secret, and an operator of an installation on AWS has an identity there already.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type Transport struct {
	Credentials aws.CredentialsProvider
	Region      string
	// Next sends them; nil is http.DefaultTransport.
	Next http.RoundTripper
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
		if err := r.Body.Close(); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
	}
	credentials, err := t.Credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign request: credentials of AWS: %w", err)
	}
	now := time.Now
	if t.Now != nil {
		now = t.Now
	}
	signed := r.Clone(r.Context())
	signed.Body = http.NoBody
	if len(body) > 0 {
		signed.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(sum[:]), service, t.Region, now()); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	next := t.Next
	if next == nil {
		next = http.DefaultTransport
	}
	return next.RoundTrip(signed)
}
