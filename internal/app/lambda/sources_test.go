package lambda

import (
	"maps"
	"testing"

	"fedpost/internal/engine/queue"
)

func TestTheURLsOfTheQueuesIdentifyAnEvent(t *testing.T) {
	urls := map[queue.Name]string{}
	for _, n := range queue.Names {
		urls[n] = "https://sqs.eu-central-1.amazonaws.com/123456789012/fedpost-" + string(n)
	}
	urls[queue.Ordered] += ".fifo"
	got, err := Sources("eu-central-1", urls)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]queue.Name{
		"arn:aws:sqs:eu-central-1:123456789012:fedpost-high":         queue.High,
		"arn:aws:sqs:eu-central-1:123456789012:fedpost-normal":       queue.Normal,
		"arn:aws:sqs:eu-central-1:123456789012:fedpost-low":          queue.Low,
		"arn:aws:sqs:eu-central-1:123456789012:fedpost-ordered.fifo": queue.Ordered,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestTheARNFollowsFromTheURL(t *testing.T) {
	tests := []struct{ region, url, arn string }{
		{"us-east-1", "http://127.0.0.1:4566/queue/us-east-1/000000000000/high", "arn:aws:sqs:us-east-1:000000000000:high"},
		{"us-east-1", "http://sqs.us-east-1.localhost.localstack.cloud:4566/000000000000/high", "arn:aws:sqs:us-east-1:000000000000:high"},
		{"cn-north-1", "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/high", "arn:aws-cn:sqs:cn-north-1:123456789012:high"},
		{"us-gov-west-1", "https://sqs.us-gov-west-1.amazonaws.com/123456789012/high/", "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:high"},
		{"eusc-de-east-1", "https://sqs.eusc-de-east-1.amazonaws.eu/123456789012/high", "arn:aws-eusc:sqs:eusc-de-east-1:123456789012:high"},
	}
	for _, tt := range tests {
		if got, err := queueARN(tt.region, tt.url); err != nil || got != tt.arn {
			t.Errorf("%s: %s, %v, want %s", tt.url, got, err, tt.arn)
		}
	}
	if _, err := queueARN("us-east-1", "https://sqs.us-east-1.amazonaws.com/high"); err == nil {
		t.Error("a URL without account is taken")
	}
}
