package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"fedpost/client"
	"fedpost/client/awsauth"
	"fedpost/internal/app/local"
	"fedpost/internal/engine/awssdk"
)

// remote are the flags of commands that print what a running fedpost answers.
type remote struct {
	reach
	JSON bool `help:"Print the answer as JSON."`
}

// reach are the flags that say how to reach a running fedpost.
type reach struct {
	URL       string `help:"Address of the fedpost to call, or unix:PATH. Requests to API Gateway are signed with your AWS credentials." default:"http://127.0.0.1:8080" env:"FEDPOST_URL"`
	AWSRegion string `name:"aws-region" help:"Sign requests with your AWS credentials for this region. Needed if the API has its own domain; otherwise the address names the region." env:"FEDPOST_AWS_REGION"`
	Token     string `help:"Token of the API. Prefer the environment variable: other users of the machine can see flags." env:"FEDPOST_API_TOKEN"`

	// Transport, if not nil, carries requests to an address of http or https.
	Transport http.RoundTripper `kong:"-"`
	// Patience is for how long a failed call is repeated, if that is safe; 0: not at all.
	Patience time.Duration `kong:"-"`
}

// defaultURL is where fedpost up listens by default.
const defaultURL = "http://127.0.0.1:8080"

// patience is the time limit of one call to the API.
const patience = time.Minute

func (r reach) client(ctx context.Context) (*client.Client, error) {
	address, token, carrier := r.URL, r.Token, r.Transport
	if path, ok := local.SocketPath(r.URL); ok {
		address, carrier = "http://localhost", onSocket(path)
	} else if u, err := url.Parse(r.URL); err == nil {
		region, onAWS := awsauth.RegionOf(u.Hostname())
		if onAWS || r.AWSRegion != "" {
			cfg, err := awsConfig(ctx, cmp.Or(r.AWSRegion, region))
			if err != nil {
				return nil, err
			}
			token, carrier = "", awsauth.Transport{Credentials: cfg.Credentials, Region: r.AWSRegion, Next: r.Transport}
		}
	}
	c, err := client.New(address, client.Token(token), client.Patience(r.Patience), client.HTTPClient(&http.Client{Timeout: patience, Transport: carrier}))
	if errors.Is(err, client.ErrToken) {
		return nil, mistaken("--token or FEDPOST_API_TOKEN is %w", err)
	}
	if err != nil && strings.Contains(r.URL, "@") {
		return nil, mistaken("--url or FEDPOST_URL has a user name or a password: leave them out, and give the token with --token or FEDPOST_API_TOKEN")
	}
	if err != nil {
		return nil, mistaken("%q is no address: give one such as http://127.0.0.1:8080 with --url or FEDPOST_URL", r.URL)
	}
	return c, nil
}

// onSocket carries requests over a Unix socket, whatever their host.
func onSocket(path string) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
}

// call makes one call and prints the answer: as JSON with --json, else by show.
func call[T any](ctx context.Context, r remote, out io.Writer, ask func(*client.Client) (T, error), show func(io.Writer, T) error) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	answer, err := ask(c)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(out, answer)
	}
	return show(out, answer)
}

// list prints the entries of a list, of which there are limit at most.
func list[T any](ctx context.Context, r remote, out io.Writer, limit positive, entries func(*client.Client) iter.Seq2[T, error], show func(io.Writer, []T) error) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	all, err := collect(entries(c))
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(out, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "none")
		return err
	}
	if err := show(out, all); err != nil {
		return err
	}
	return showCut(out, len(all), limit)
}

// collect returns all entries of a list. An empty list is not nil: it is printed as [].
func collect[T any](entries iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// showCut says that a list may have been cut at its limit.
func showCut(out io.Writer, n int, limit positive) error {
	if n < int(limit) {
		return nil
	}
	_, err := fmt.Fprintf(out, "The first %d; there may be more: --limit.\n", n)
	return err
}

func printJSON(out io.Writer, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	if _, err := io.WriteString(out, escaped(b.String())); err != nil {
		return fmt.Errorf("print answer: %w", err)
	}
	return nil
}

// awsConfig returns the configuration of the SDK's default chain, which finds
// credentials where an operator keeps them: the environment, shared profiles,
// SSO, roles of instances and containers. Lambda functions do not link it. region is used where
// the chain finds none; it may be empty.
// https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
func awsConfig(ctx context.Context, region string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithDefaultRegion(region))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("no AWS region is configured: set AWS_REGION, or a region in the profile")
	}
	return awssdk.Tune(cfg), nil
}

// credentialsTime bounds the look for credentials at start.
const credentialsTime = 20 * time.Second

// hasCredentials fails if the chain finds no credentials. The SDK itself looks
// for them at the first call.
func hasCredentials(ctx context.Context, cfg aws.Config) error {
	ctx, cancel := context.WithTimeout(ctx, credentialsTime)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return fmt.Errorf("no AWS credentials: set AWS_PROFILE (aws configure, aws sso login), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role: %w", err)
	}
	return nil
}
