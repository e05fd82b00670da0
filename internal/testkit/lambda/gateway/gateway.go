// Package gateway stands in for API Gateway: an http.RoundTripper that turns requests into the
// events of a REST API or an HTTP API, and the function's answers into responses. So package client
// can talk to a Lambda function without a gateway.
package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// Format is what kind of API the events are of.
type Format string

// The formats.
const (
	REST Format = "1.0" // REST APIs
	HTTP Format = "2.0" // HTTP APIs
)

// Transport sends requests to a function.
type Transport struct {
	Format Format
	// Invoke hands one event to the function.
	Invoke func(ctx context.Context, event []byte) ([]byte, error)
}

// RoundTrip implements http.RoundTripper. If the function fails, the response is a 502 as
// from API Gateway, with the function's error as the body.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	event, err := t.event(r)
	if err != nil {
		return nil, err
	}
	answer, err := t.Invoke(r.Context(), event)
	if err != nil {
		return response(r, http.StatusBadGateway, http.Header{}, []byte(err.Error())), nil
	}
	var a struct {
		events.APIGatewayProxyResponse
		Cookies []string `json:"cookies"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("answer of the function: %w", err)
	}
	header := http.Header{}
	for k, v := range a.Headers {
		header.Set(k, v)
	}
	for k, vs := range a.MultiValueHeaders {
		header[http.CanonicalHeaderKey(k)] = vs
	}
	body := []byte(a.Body)
	if a.IsBase64Encoded {
		if body, err = base64.StdEncoding.DecodeString(a.Body); err != nil {
			return nil, fmt.Errorf("answer of the function: %w", err)
		}
	}
	return response(r, a.StatusCode, header, body), nil
}

func response(r *http.Request, status int, h http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func (t Transport) event(r *http.Request) ([]byte, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
		if err := r.Body.Close(); err != nil {
			return nil, fmt.Errorf("read request: %w", err)
		}
	}
	var e any
	if t.Format == HTTP {
		e = httpEvent(r, body)
	} else {
		e = restEvent(r, body)
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("make event: %w", err)
	}
	return b, nil
}

// restEvent makes an event of a REST API: it has the path as sent and the body as text.
func restEvent(r *http.Request, body []byte) events.APIGatewayProxyRequest {
	e := events.APIGatewayProxyRequest{
		Resource: "/v1/{proxy+}", Path: r.URL.EscapedPath(), HTTPMethod: r.Method,
		Headers: map[string]string{"Host": r.Host}, MultiValueHeaders: map[string][]string{"Host": {r.Host}},
		QueryStringParameters: map[string]string{}, MultiValueQueryStringParameters: r.URL.Query(),
		Body: string(body),
	}
	for k, vs := range r.Header {
		e.Headers[k], e.MultiValueHeaders[k] = vs[len(vs)-1], vs
	}
	for k, vs := range r.URL.Query() {
		e.QueryStringParameters[k] = vs[len(vs)-1]
	}
	if !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	e.RequestContext.Stage, e.RequestContext.DomainName, e.RequestContext.HTTPMethod = "live", r.Host, r.Method
	e.RequestContext.Path, e.RequestContext.Identity.SourceIP = "/live"+e.Path, "203.0.113.7"
	return e
}

// httpEvent makes an event of an HTTP API: it has the path decoded, the body in base64
// and the values of a header joined with commas.
func httpEvent(r *http.Request, body []byte) events.APIGatewayV2HTTPRequest {
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "ANY /v1/{proxy+}", RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery,
		Headers: map[string]string{"host": r.Host},
	}
	for k, vs := range r.Header {
		e.Headers[strings.ToLower(k)] = strings.Join(vs, ",")
	}
	if len(body) > 0 {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	e.RequestContext.Stage, e.RequestContext.DomainName = "$default", r.Host
	e.RequestContext.HTTP.Method, e.RequestContext.HTTP.Path, e.RequestContext.HTTP.SourceIP = r.Method, r.URL.Path, "203.0.113.7"
	return e
}
