package enqueue

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fedpost/internal/activity"
)

// Bounds of extra headers: a delivery message holds those of an activity and 50 recipients.
const (
	mostHeaders      = 8
	headersBytes     = 4096 // names and values of an activity
	recipientHeaders = 1024 // names and values of a recipient
)

// allowedHeaders are the names that callers may give, in lower case, beside those that
// begin with "x-". All others are refused, such as those of HTTP itself, of signatures and
// of credentials: a list of these would never be complete.
var allowedHeaders = []string{
	"accept-language", "baggage", "collection-synchronization", "idempotency-key", "link", "prefer", "priority", "traceparent", "tracestate", "user-agent",
}

// trusted are prefixes of "x-" names that callers may not give: proxies use them to tell
// servers whom a request is from and what it may do. The list may lack a name, as
// applications invent "x-" names. A server that trusts such a header from the internet can be
// deceived without fedpost, too.
var trusted = []string{
	"x-real-ip", "x-client", "x-cluster", "x-original", "x-rewrite", "x-http-method", "x-method", "x-host", "x-accel",
	"x-forward", "x-true-", "x-ip", "x-originating", "x-override", "x-proxy", "x-scheme", "x-proto", "x-tls", "x-arr", "x-middleware", "x-webauth", "x-vouch",
	"x-pomerium", "x-consumer", "x-credential", "x-jwt", "x-token", "x-email", "x-hub-signature",
	"x-amz", "x-aws", "x-goog", "x-azure", "x-ms-", "x-auth", "x-api", "x-csrf", "x-xsrf", "x-remote", "x-user", "x-ssl", "x-signature", "x-sendfile", "x-envoy", "x-cloud",
}

func allowedHeader(name string) bool {
	name = strings.ToLower(name)
	if slices.Contains(allowedHeaders, name) {
		return true
	}
	return strings.HasPrefix(name, "x-") && len(name) > 2 && !slices.ContainsFunc(trusted, func(t string) bool { return strings.HasPrefix(name, t) })
}

// checkHeaders returns extra headers in canonical form, and adds faults to f.
func checkHeaders(hs []activity.Header, most int, f faults) activity.Headers {
	if len(hs) > mostHeaders {
		f.add("", "has %d entries; the most is %d", len(hs), mostHeaders)
		return ""
	}
	clean, total := make([]activity.Header, len(hs)), 0
	for i, h := range hs {
		at := f.below(fmt.Sprintf("/%d", i))
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case h.Name == "":
			at.add("/name", "is missing")
		case !token(h.Name):
			at.add("/name", "is no name of a header: letters, digits and hyphens")
		case !allowedHeader(h.Name):
			at.add("/name", "is %q, which is not allowed; allowed are %s, and names that begin with X- unless proxies and servers give them a meaning", name, strings.Join(allowedHeaders, ", "))
		case slices.ContainsFunc(clean[:i], func(o activity.Header) bool { return o.Name == name }):
			at.add("/name", "is given twice")
		}
		value := strings.Trim(h.Value, " \t")
		switch {
		case value == "":
			at.add("/value", "is missing")
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			at.add("/value", "holds a character that is not printable ASCII")
		}
		clean[i] = activity.Header{Name: name, Value: value, Sign: h.Sign}
		total += len(name) + len(value)
	}
	if total > most {
		f.add("", "has %d bytes; the most is %d", total, most)
	}
	return activity.NewHeaders(clean)
}

// token reports whether s is made of letters, digits and hyphens: of the tokens of RFC
// 9110, section 5.6.2, those that every server takes.
func token(s string) bool {
	return len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
