package awsauth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestTheRegionIsInTheHost(t *testing.T) {
	for host, want := range map[string]string{
		"abc.execute-api.eu-central-1.amazonaws.com":  "eu-central-1",
		"abc.execute-api.cn-north-1.amazonaws.com.cn": "cn-north-1",
		"127.0.0.1:8080": "",
		"social.example": "",
		"abc.execute-api.eu-central-1.evil.example": "",
		"execute-api.eu-central-1.amazonaws.com":    "",
		"abc.sqs.eu-central-1.amazonaws.com":        "",
	} {
		if got, ok := RegionOf(host); got != want || ok != (got != "") {
			t.Errorf("%s: region %q (%t), want %q", host, got, ok, want)
		}
	}
}

// seen is the request as it goes on the wire.
type seen struct {
	*http.Request
	body string
}

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(r.Body)
	s.Request, s.body = r, string(b)
	return &http.Response{StatusCode: 200, Body: http.NoBody}, err
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func mac(key, s string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(s))
	return string(m.Sum(nil))
}

// TestTheSignatureIsThatOfTheDocumentation computes it step by step as the page
// describes it, with the path encoded twice, as for all services but S3.
func TestTheSignatureIsThatOfTheDocumentation(t *testing.T) {
	const body = `{"reason":"spam"}`
	s := &seen{}
	tr := Transport{
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret", SessionToken: "session"}, nil
		}),
		Region: "eu-central-1", Next: s, Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) },
	}
	const host = "abc.execute-api.eu-central-1.amazonaws.com"
	r, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+host+"/live/v1/servers/https%3A%2F%2Fa.example/block?x=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if s.body != body || r.Header.Get("Authorization") != "" {
		t.Errorf("sent %q; the caller's request was changed: %v", s.body, r.Header)
	}
	canonical := strings.Join([]string{
		"POST", "/live/v1/servers/https%253A%252F%252Fa.example/block", "x=1",
		"content-length:17", "host:" + host, "x-amz-date:20261121T120000Z", "x-amz-security-token:session", "",
		"content-length;host;x-amz-date;x-amz-security-token", sum(body),
	}, "\n")
	scope := "20261121/eu-central-1/execute-api/aws4_request"
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", "20261121T120000Z", scope, sum(canonical)}, "\n")
	key := mac(mac(mac(mac("AWS4secret", "20261121"), "eu-central-1"), "execute-api"), "aws4_request")
	want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/" + scope +
		", SignedHeaders=content-length;host;x-amz-date;x-amz-security-token, Signature=" + hex.EncodeToString([]byte(mac(key, toSign)))
	if got := s.Header.Get("Authorization"); got != want {
		t.Errorf("signed\n%s, want\n%s", got, want)
	}
}

func TestWithoutCredentialsNothingIsSent(t *testing.T) {
	s := &seen{}
	none := errors.New("no credentials")
	tr := Transport{Next: s, Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, none })}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://a.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(r)
	if resp != nil {
		resp.Body.Close()
	}
	if !errors.Is(err, none) || s.Request != nil {
		t.Errorf("error %v, sent %v", err, s.Request)
	}
}
