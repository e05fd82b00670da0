// Package apigateway lets a net/http handler serve the events that API Gateway
// sends to a Lambda function: those of REST APIs (payload format 1.0) and HTTP
// APIs (2.0), recognized by their fields.
//
// A library translates the event. This package restores the request as it was sent: an HTTP API
// decodes the path, such as a key id https://a.example/u#main-key, and the library splits
// headers at commas, such as an Idempotency-Key.
package apigateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// Handler answers one event of either format.
type Handler func(ctx context.Context, event json.RawMessage) (any, error)

var ErrNotAPIGateway = errors.New("the event is not one of API Gateway")

// shape distinguishes the formats. Events of a REST API have no version.
// https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
type shape struct {
	Version    string `json:"version"`
	HTTPMethod string `json:"httpMethod"`
}

// API is what is served. Patterns are those of its routes, as http.ServeMux takes them.
type API interface {
	http.Handler
	Patterns() []string
}

func New(h API) Handler {
	paths := newPaths(h.Patterns())
	v1 := httpadapter.New(h)
	v2 := httpadapter.NewV2(wholeHeaders(h))
	return func(ctx context.Context, event json.RawMessage) (any, error) {
		var s shape
		if err := json.Unmarshal(event, &s); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotAPIGateway, err)
		}
		switch {
		case s.Version == "2.0":
			var r events.APIGatewayV2HTTPRequest
			if err := json.Unmarshal(event, &r); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotAPIGateway, err)
			}
			_, resource, _ := strings.Cut(r.RouteKey, " ")
			r.RawPath = paths.encode(withoutBase(withoutStage(r), resource, r.PathParameters))
			return v2.ProxyWithContext(withHeaders(ctx, r.Headers), r)
		case s.HTTPMethod != "":
			var r events.APIGatewayProxyRequest
			if err := json.Unmarshal(event, &r); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotAPIGateway, err)
			}
			r.Path = paths.encode(withoutBase(r.Path, r.Resource, r.PathParameters))
			return v1.ProxyWithContext(ctx, r)
		}
		return nil, ErrNotAPIGateway
	}
}

type headersKey struct{}

func withHeaders(ctx context.Context, h map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, h)
}

// wholeHeaders restores the headers of a format 2.0 event, which the library splits at commas.
func wholeHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if sent, ok := r.Context().Value(headersKey{}).(map[string]string); ok {
			for name, value := range sent {
				r.Header.Set(name, value)
			}
		}
		next.ServeHTTP(w, r)
	})
}
