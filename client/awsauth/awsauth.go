// Package awsauth signs requests to a fedpost on AWS, whose API Gateway recognises callers by
// their IAM identity. It is apart from package client so that programs without AWS do not link
// its SDK.
//
//	cfg, err := config.LoadDefaultConfig(ctx)
//	c, err := client.New(address, awsauth.Sign(cfg.Credentials))
package awsauth

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"fedpost/client"
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

// Sign signs each request of a client with AWS credentials, for the region that the host of
// its address names.
func Sign(credentials aws.CredentialsProvider) client.Option {
	return client.HTTPClient(&http.Client{Timeout: time.Minute, Transport: Transport{Credentials: credentials}})
}

// ErrRegion says that a request cannot be signed, because its host does not name a region.
var ErrRegion = errors.New("no region is set, and the host does not name one")

// Transport signs requests with AWS credentials (Signature Version 4) and passes them on;
// API Gateway recognises the caller by the signature. A Bearer token would be one more
// secret, and an operator of an installation on AWS has an identity there already.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type Transport struct {
	Credentials aws.CredentialsProvider
	// Region is needed for an API under a domain of its own; empty: RegionOf the host.
	Region string
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
		body, err = io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, fmt.Errorf("sign request: %w", err)
		}
	}
	credentials, err := t.Credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign request: credentials of AWS: %w", err)
	}
	region := t.Region
	if region == "" {
		var ok bool
		if region, ok = RegionOf(r.URL.Hostname()); !ok {
			return nil, fmt.Errorf("sign request to %s: %w", r.URL.Hostname(), ErrRegion)
		}
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
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(sum[:]), service, region, now()); err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return cmp.Or(t.Next, http.DefaultTransport).RoundTrip(signed)
}
