// Package client is the Go client of fedpost's HTTP API, which docs/openapi.yaml describes.
// The command line, the operator's page, the benchmark and the end-to-end tests use it, so
// they see what a caller sees.
//
// In another module, until the package is published: go mod edit -replace fedpost=FOLDER of the
// clone, then go mod tidy. A first program needs a fedpost, a key and an inbox: fedpost up
// --allow-private --data ./data, fedpost keys generate ID, and fedpost sink.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Token(token))
//	accepted, err := c.Send(ctx, client.Submission{
//		Activity: activity, KeyID: "https://social.example/users/frida#main-key",
//		Recipients: client.To("https://a.example/inbox"),
//	})
//
// There is a method for each operation of the API. Lists are iterators that read page after
// page. If fedpost refuses a call, the error is a [*Problem], which errors.As finds; if nobody
// answers, it wraps [ErrNoAnswer].
//
// Calls that are safe to repeat are repeated for [Patience]: those that read or set a state, and
// Send and SendMany, which give their activity a deduplication key if it has none. Retry-After
// is obeyed, up to 5 minutes. Other calls are repeated only after a 429, which says that fedpost
// has not begun with them.
//
// Redirects are not followed: they would take a token or a private key to another server.
//
// Package [fedpost/client/awsauth] signs the requests for a fedpost on AWS.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Client calls one installation of fedpost. It may be used by several goroutines at once.
type Client struct {
	base     string
	token    string
	http     *http.Client
	patience time.Duration
	// answered is set once fedpost has answered: after that, a name that is not found is only
	// missing for a moment.
	answered *atomic.Bool
}

// Format implements fmt.Formatter, so that no log shows the token.
func (c *Client) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "client of fedpost at %s", c.base) }

// An Option sets one thing of a Client.
type Option func(*Client)

// Token sends a Bearer token with each request. Space around it is dropped, such as the line
// break at the end of a file.
func Token(token string) Option { return func(c *Client) { c.token = token } }

// HTTPClient makes the requests with hc. By default it is a client with a time limit of a
// minute for each request; Events needs one of more than 20 seconds.
func HTTPClient(hc *http.Client) Option { return func(c *Client) { c.http = hc } }

// Patience is for how long a failed call is repeated, if that is safe, before its error is
// returned: 30 seconds by default. 0: no call is repeated.
func Patience(d time.Duration) Option { return func(c *Client) { c.patience = d } }

var (
	// ErrAddress says that New was not given the address of an HTTP server.
	ErrAddress = errors.New("not an address of fedpost")
	// ErrToken says that New was given a token that no header can carry.
	ErrToken = errors.New("not a token of fedpost")
	// ErrNoAnswer says that a call got no answer, or one that is not HTTP.
	ErrNoAnswer = errors.New("no answer from fedpost")
	// ErrNotFedpost says that the answer is not fedpost's, or that of a version that this package
	// does not understand.
	ErrNotFedpost = errors.New("not an answer of fedpost")
)

const (
	// maxAnswer is how many bytes of an answer are read. The largest answer of fedpost is a page of
	// a few megabytes.
	maxAnswer = 64 << 20
	// maxRefusal is how many bytes of a refusal are read.
	maxRefusal = 1 << 20
)

// New returns a client of the fedpost at an address such as http://127.0.0.1:8080. It makes no
// request. The error is ErrAddress or ErrToken, and shows neither password nor token.
func New(address string, options ...Option) (*Client, error) {
	u, err := url.Parse(address)
	if err == nil && u.User != nil || err != nil && strings.Contains(address, "@") {
		return nil, fmt.Errorf("%w: it has a user name or a password: leave them out, and give the token with client.Token", ErrAddress)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: %q: give one such as http://127.0.0.1:8080", ErrAddress, address)
	}
	c := &Client{base: strings.TrimRight(address, "/"), http: &http.Client{Timeout: time.Minute}, patience: 30 * time.Second, answered: new(atomic.Bool)}
	for _, set := range options {
		set(c)
	}
	c.token = strings.TrimSpace(c.token)
	if strings.ContainsFunc(c.token, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil, fmt.Errorf("%w: it has a line break or another character that is not printable ASCII", ErrToken)
	}
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &own
	return c, nil
}

// Do makes one call that this package has no method for, with in as its JSON body (nil: none;
// bytes are sent as they are), and reads the JSON answer into out (nil: it is not read). path
// begins with a slash and is percent-encoded. The call is repeated if its method is GET
// or PUT.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	return c.do(ctx, request{method: method, path: path, in: in, harmless: method == http.MethodGet || method == http.MethodPut}, out)
}

// request is a call of the API.
type request struct {
	method, path string
	query        url.Values
	in           any
	key          string // Idempotency-Key, if not empty
	harmless     bool   // safe to repeat, whatever became of it
}

// get reads path into a T.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (out T, err error) {
	return out, c.do(ctx, request{method: http.MethodGet, path: path, query: query, harmless: true}, &out)
}

// send makes a call with a body and reads the answer into a T.
func send[T any](ctx context.Context, c *Client, r request) (out T, err error) {
	return out, c.do(ctx, r, &out)
}

// do makes a call until it succeeds or must not be repeated any more.
func (c *Client) do(ctx context.Context, r request, out any) error {
	body, err := bodyOf(r.in)
	if err != nil {
		return err
	}
	if len(r.query) > 0 {
		r.path += "?" + r.query.Encode()
	}
	until := time.Now().Add(c.patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.once(ctx, r, body, out)
		wait := c.pauseAfter(err, pause, r.harmless)
		if wait < 0 || time.Now().Add(wait).After(until) || sleep(ctx, wait) != nil {
			return err
		}
	}
}

// bodyOf is in as JSON.
func bodyOf(in any) ([]byte, error) {
	switch in := in.(type) {
	case nil:
		return nil, nil
	case []byte:
		return in, nil
	case json.RawMessage:
		return in, nil
	case interface{ Encode() ([]byte, error) }:
		return in.Encode()
	}
	return encode(in)
}

// once makes one request.
func (c *Client) once(ctx context.Context, r request, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", strconv.Quote(r.key)) // a string of RFC 9651
	}
	resp, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // u repeats the method and the address
	}
	if err != nil {
		return fmt.Errorf("%w at %s: %w", ErrNoAnswer, c.base, err)
	}
	defer resp.Body.Close()
	most := maxAnswer
	if resp.StatusCode >= 400 {
		most = maxRefusal
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("%w: %s %s: %d that points to %s, which is not followed: give the address of fedpost itself",
			ErrNotFedpost, r.method, c.base+r.path, resp.StatusCode, target(resp))
	case resp.StatusCode >= 400:
		return problemOf(resp, answer) // also if the rest of it is lost
	case err != nil:
		return fmt.Errorf("%w at %s: %s %s: read answer: %w", ErrNoAnswer, c.base, r.method, r.path, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("%w: %s %s: over %d bytes", ErrNotFedpost, r.method, c.base+r.path, maxAnswer)
	case out == nil:
		c.answered.Store(true)
		return nil
	}
	err = json.Unmarshal(answer, out)
	if w, ok := out.(interface{ whole() bool }); err == nil && ok && !w.whole() {
		err = errPart
	}
	if err != nil {
		return fmt.Errorf("%w: %s %s: %d %s that is not the JSON that was expected: is the address right, and this client as new as fedpost? %w",
			ErrNotFedpost, r.method, c.base+r.path, resp.StatusCode, kindOf(resp), err)
	}
	c.answered.Store(true)
	return nil
}

// errPart says that an answer is JSON, but not fedpost's.
var errPart = errors.New("it lacks what each such answer has")

func kindOf(resp *http.Response) string {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind
}

// target is where a redirect points.
func target(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return "nowhere"
	}
	return strconv.Quote(to.Scheme + "://" + to.Host + to.EscapedPath()[:min(len(to.EscapedPath()), 300)])
}

func problemOf(resp *http.Response, body []byte) error {
	p := &Problem{}
	if err := json.Unmarshal(body, p); err != nil {
		*p = Problem{Detail: strings.TrimSpace(string(body[:min(len(body), 300)]))}
	}
	if kind := kindOf(resp); kind == "text/html" {
		p.Detail = kind + ", which is not from fedpost: is the address right?"
	}
	p.clean()
	if p.Status = resp.StatusCode; p.Title == "" {
		p.Title = http.StatusText(resp.StatusCode)
	}
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	return fmt.Errorf("fedpost answered %w", p)
}

// mostEmpty is how many pages in a row may be empty. fedpost may have searched 2,000 activities for
// each.
const mostEmpty = 10_000

// pages reads a list page by page: limit entries at most (0: all), and most a page. field is the
// list's name in the answer. If the list never ends, the caller has to stop.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values, field string, limit, most int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		left, empty := limit, 0
		// A cursor that comes again is found by Brent's algorithm: the cursor of page 1, 2, 4, 8
		// and so on is kept.
		kept, keep := "", 1
		for n := 1; ; n++ {
			if query.Del("limit"); limit > 0 {
				query.Set("limit", strconv.Itoa(min(left, most)))
			}
			page, err := get[map[string]json.RawMessage](ctx, c, path, query)
			if err != nil {
				yield(none, err)
				return
			}
			var entries []T
			var next string
			err = json.Unmarshal(page[field], &entries)
			if raw := page["nextCursor"]; err == nil && raw != nil {
				err = json.Unmarshal(raw, &next)
			}
			if err != nil {
				yield(none, fmt.Errorf("%w: GET %s: %q: %w", ErrNotFedpost, path, field, err))
				return
			}
			for _, e := range entries {
				if left--; !yield(e, nil) || left == 0 {
					return
				}
			}
			if next == "" {
				return
			}
			if empty++; len(entries) > 0 {
				empty = 0
			}
			switch {
			case next == kept:
				err = fmt.Errorf("its pages repeat: %.100q comes twice as nextCursor", next)
			case empty == mostEmpty:
				err = fmt.Errorf("%d pages in a row have no entry", empty)
			case n == keep:
				kept, keep = next, 2*keep
			}
			if err != nil {
				yield(none, fmt.Errorf("%w: GET %s: %w", ErrNotFedpost, path, err))
				return
			}
			query.Set("cursor", next)
		}
	}
}

// queryOf is a query of the pairs whose value is not empty.
func queryOf(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// trueOf formats a choice for a query; false is "".
func trueOf(b bool) string {
	if b {
		return "true"
	}
	return ""
}

// numberOf formats a number for a query; 0 and less is "".
func numberOf(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// timeOf formats a time for a query; the zero time is "".
func timeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// The pause before a call is repeated doubles from firstPause to longestPause, and is drawn from
// its second half, so that callers that failed together do not retry together.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// longestRetryAfter bounds Retry-After: no answer may stop a caller for a year.
const longestRetryAfter = 5 * time.Minute

// retryAfter is how long to wait by a header Retry-After, in seconds or as a date; 0: it says
// nothing.
func retryAfter(header string) time.Duration {
	if at, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(at), 0), longestRetryAfter)
	}
	seconds, err := strconv.Atoi(header)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // seconds is the nearest int
	}
	if err != nil {
		return 0
	}
	return upToLongest(seconds)
}

// upToLongest is a wait of that many seconds, at most longestRetryAfter.
func upToLongest(seconds int) time.Duration {
	return time.Duration(min(max(seconds, 0), int(longestRetryAfter/time.Second))) * time.Second
}

// pauseAfter is how long to wait before a call that ended with err is repeated; negative: it is
// not. A call that is safe to repeat is repeated unless the answer is final; any other only if
// fedpost has not begun with it.
func (c *Client) pauseAfter(err error, pause time.Duration, harmless bool) time.Duration {
	pause = pause/2 + rand.N(pause/2)
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Status == http.StatusTooManyRequests,
		errors.As(err, &p) && harmless && (p.Status >= 500 || inProgress(p)):
		return max(p.RetryAfter, pause)
	case errors.Is(err, ErrNoAnswer) && harmless && !c.hopeless(err):
		return pause
	}
	return -1
}

// inProgress: another request has the deduplication key, and its outcome is not known yet.
func inProgress(p *Problem) bool { return p.Status == http.StatusConflict && p.RetryAfter > 0 }

// hopeless errors do not pass soon: the caller has given up, the certificate is not the server's,
// nothing speaks TLS there, or the name does not exist. The name of a container may be missing
// during a restart.
func (c *Client) hopeless(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.Is(err, context.Canceled) || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record) ||
		errors.As(err, &name) && name.IsNotFound && !c.answered.Load()
}

// sleep waits for d, or until ctx ends; then it returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
