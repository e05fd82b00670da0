package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fedpost/internal/api/client"
	"fedpost/internal/app/local"
)

// remote are the flags of commands that print what a running fedpost answers.
type remote struct {
	reach
	JSON bool `help:"Print the answer as JSON."`
}

// reach are the flags that say how to reach a running fedpost.
type reach struct {
	URL       string `help:"Address of the fedpost to talk to, or unix:PATH. Requests to API Gateway are signed with your AWS credentials." default:"http://127.0.0.1:8080" env:"FEDPOST_URL"`
	AWSRegion string `name:"aws-region" help:"Sign requests with your AWS credentials for this region. An API under a domain of its own needs it; else the address says it." env:"FEDPOST_AWS_REGION"`
	Token     string `help:"Token of the API. Prefer the environment variable: other users of the machine can see flags." env:"FEDPOST_API_TOKEN"`

	// Transport, if not nil, carries requests to an address of http or https.
	Transport http.RoundTripper `kong:"-"`
}

// defaultURL is where fedpost up listens by default.
const defaultURL = "http://127.0.0.1:8080"

// patience is the time limit of one call to the API.
const patience = time.Minute

func (r reach) client(ctx context.Context) (*client.Client, error) {
	if path, ok := local.SocketPath(r.URL); ok {
		return &client.Client{Base: "http://localhost", Token: r.Token, HTTP: &http.Client{Timeout: patience, Transport: onSocket(path)}}, nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, mistaken("%q is no address: give one such as http://127.0.0.1:8080 with --url or FEDPOST_URL", r.URL)
	}
	c := &client.Client{Base: strings.TrimSuffix(r.URL, "/"), Token: r.Token, HTTP: &http.Client{Timeout: patience, Transport: r.Transport}}
	region, sign := client.RegionOf(u.Hostname())
	if r.AWSRegion != "" {
		region, sign = r.AWSRegion, true
	}
	if sign {
		cfg, err := awsConfig(ctx)
		if err != nil {
			return nil, err
		}
		c.Token, c.HTTP.Transport = "", client.Transport{Credentials: cfg.Credentials, Region: region}
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
func call[T any](ctx context.Context, r remote, out io.Writer, method, path string, body any, show func(io.Writer, T) error) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	var raw json.RawMessage
	if err := c.Do(ctx, method, path, text, &raw); err != nil {
		return err
	}
	if r.JSON {
		return printJSON(out, raw)
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("%s %s: answer: %w", method, path, err)
	}
	return show(out, v)
}

// list prints the entries of a list, page by page up to a limit.
func list[T any](ctx context.Context, r remote, out io.Writer, path string, query url.Values, field string, limit, most int, show func(io.Writer, []T) error) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	raw, err := c.List(ctx, path, query, field, limit, most)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(out, raw)
	}
	all := make([]T, len(raw))
	for i, entry := range raw {
		if err := json.Unmarshal(entry, &all[i]); err != nil {
			return fmt.Errorf("GET %s: answer: %w", path, err)
		}
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "none")
		return err
	}
	if err := show(out, all); err != nil {
		return err
	}
	if len(all) == limit {
		_, err = fmt.Fprintf(out, "The first %d; there may be more: --limit.\n", limit)
	}
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
