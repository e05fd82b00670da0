package lambda

import (
	"fmt"
	"net/url"
	"strings"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
)

// Sources maps ARNs, by which events name their queues, to the names of the queues that the
// deliver function reads. It derives the ARNs from the queues' URLs.
func Sources(region string, urls map[queue.Name]string) (map[string]queue.Name, error) {
	sources := map[string]queue.Name{}
	for _, name := range topology.Sources {
		arn, err := queueARN(region, urls[name])
		if err != nil {
			return nil, fmt.Errorf("%s queue: %w", name, err)
		}
		sources[arn] = name
	}
	return sources, nil
}

// queueARN returns the ARN of the queue at a URL, which ends in the account and the name.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html
func queueARN(region, rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 2 {
		return "", fmt.Errorf("%s is not the URL of a queue: it must end in /account/name", rawURL)
	}
	account, name := parts[len(parts)-2], parts[len(parts)-1]
	return "arn:" + partition(region) + ":sqs:" + region + ":" + account + ":" + name, nil
}

// partition returns the AWS partition of a region.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func partition(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(region, "us-gov-"):
		return "aws-us-gov"
	case strings.HasPrefix(region, "eusc-"):
		return "aws-eusc"
	}
	return "aws"
}
