package apigateway

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// withoutStage returns the path without the stage's name. An HTTP API puts the
// name in front of the path unless the stage is $default.
func withoutStage(r events.APIGatewayV2HTTPRequest) string {
	path := r.RawPath
	path = cmp.Or(path, r.RequestContext.HTTP.Path)
	if stage := r.RequestContext.Stage; stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			return "/" + strings.TrimPrefix(rest, "/")
		}
	}
	return path
}

// withoutBase returns the path without the base path (mapping key) of a custom domain. No field of
// the event has it: it is what precedes the resource that API Gateway has found, such as
// /v1/{proxy+} or /discover, with the path's parameters.
// https://docs.aws.amazon.com/apigateway/latest/developerguide/rest-api-mappings.html
func withoutBase(path, resource string, parameters map[string]string) string {
	prefix, parameter, greedy := strings.Cut(resource, "{")
	if !strings.HasPrefix(resource, "/") {
		return path // an HTTP API's $default route, which does not show the base path
	}
	if !greedy {
		if strings.HasSuffix(path, resource) {
			return resource
		}
		return path
	}
	rest, known := parameters[strings.TrimSuffix(parameter, "+}")]
	for i := 0; known && i < len(path); i++ {
		tail, ok := strings.CutPrefix(path[i:], prefix)
		if !ok {
			continue
		}
		if decoded, err := url.PathUnescape(tail); tail == rest || err == nil && decoded == rest {
			return path[i:]
		}
	}
	if i := strings.Index(path, prefix); i > 0 {
		return path[i:]
	}
	return path
}

// paths are the routes of an API with a wildcard, such as a key's id or a server's name, the one
// with the longest suffix first: /v1/servers/{host}/block before /v1/servers/{host}.
type paths []around

// around is what precedes and follows the wildcard of a route.
type around struct{ prefix, suffix string }

func newPaths(patterns []string) paths {
	var ps paths
	for _, pattern := range patterns {
		_, path, _ := strings.Cut(pattern, " ")
		prefix, rest, ok := strings.Cut(path, "{")
		_, suffix, closed := strings.Cut(rest, "}")
		if ok && closed {
			ps = append(ps, around{prefix, suffix})
		}
	}
	slices.SortFunc(ps, func(a, b around) int {
		return cmp.Or(cmp.Compare(len(b.suffix), len(a.suffix)), cmp.Compare(a.prefix, b.prefix))
	})
	return ps
}

// encode returns a path percent-encoded. A REST API passes it on as it was sent, an HTTP API
// decoded: a path that could not have been sent in this form was decoded.
func (ps paths) encode(path string) string {
	for _, p := range ps {
		if rest, ok := strings.CutPrefix(path, p.prefix); ok {
			if part, ok := strings.CutSuffix(rest, p.suffix); ok {
				return p.prefix + encodePart(part) + p.suffix
			}
		}
	}
	if encoded(path) {
		return path
	}
	return (&url.URL{Path: path}).EscapedPath()
}

// encodePart does what encode does, for one part of a path.
func encodePart(part string) string {
	if !encoded(part) || strings.Contains(part, "/") {
		return url.PathEscape(part)
	}
	return part
}

// encoded reports whether a request could have been sent with this path.
func encoded(path string) bool {
	_, err := url.PathUnescape(path)
	return err == nil && !strings.ContainsFunc(path, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"#<>?[\]^{|}`+"`", c)
	})
}
