package awstest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"fedpost/internal/app/topology"
	"fedpost/internal/engine/awssdk"
	"fedpost/internal/engine/queue"
	sqsqueue "fedpost/internal/engine/sqs"
)

// Settings replace topology's settings of the queues other than dead-letter queues.
type Settings struct {
	Visibility  time.Duration // 0: topology's
	MaxReceives int           // 0: topology's
	Type        queue.Type    // of the queues
}

// Queues makes all queues of fedpost and returns them by name.
func Queues(t testing.TB, s Settings) map[queue.Name]queue.Queue {
	t.Helper()
	client := SQS(t)
	queues := make(map[queue.Name]queue.Queue)
	for n, url := range QueueURLs(t, s) {
		queues[n] = sqsqueue.New(client, url, n, s.Type)
	}
	return queues
}

// QueueURLs is like Queues and returns the queues' URLs.
func QueueURLs(t testing.TB, s Settings) map[queue.Name]string {
	t.Helper()
	client, prefix := SQS(t), name()
	urls, arns := make(map[queue.Name]string), make(map[queue.Name]string)
	// The dead-letter queues come first: the attributes of the other queues name them.
	for _, n := range []queue.Name{queue.Dead, queue.DeadOrdered, queue.High, queue.Normal, queue.Low, queue.Ordered} {
		urls[n], arns[n] = makeQueue(t, client, prefix, n, s, arns[n.DeadLetter()])
	}
	return urls
}

// LoneQueueURL makes a single queue without a dead-letter queue and returns its URL. It
// may be called from any goroutine of a test.
func LoneQueueURL(t testing.TB, n queue.Name, typ queue.Type, visibility time.Duration) (string, error) {
	client, err := awssdk.SQS(Config(t), Env)
	if err != nil {
		return "", err
	}
	return create(t, client, name(), n, typ.FIFO(n), map[string]string{"VisibilityTimeout": seconds(visibility)})
}

func makeQueue(t testing.TB, client *sqs.Client, prefix string, n queue.Name, s Settings, dead string) (url, arn string) {
	t.Helper()
	url, err := create(t, client, prefix, n, s.Type.FIFO(n), queueAttributes(t, n, s, dead))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		t.Fatalf("look up queue %s: %v", url, err)
	}
	return url, got.Attributes[string(types.QueueAttributeNameQueueArn)]
}

// create makes a queue and deletes the queue at the test's end.
func create(t testing.TB, client *sqs.Client, prefix string, n queue.Name, fifo bool, attributes map[string]string) (url string, err error) {
	name := prefix + "-" + string(n)
	if fifo {
		name += ".fifo"
		attributes["FifoQueue"] = "true"
		// High throughput: the limits are per group.
		attributes["DeduplicationScope"] = "messageGroup"
		attributes["FifoThroughputLimit"] = "perMessageGroupId"
	}
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("make queue %s: %w", name, err)
	}
	cleanup(t, "queue "+name, func(ctx context.Context) error {
		_, err := client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		return err
	})
	return *made.QueueUrl, nil
}

func queueAttributes(t testing.TB, n queue.Name, s Settings, dead string) map[string]string {
	t.Helper()
	of := topology.Of(n)
	isDead := n == n.DeadLetter()
	if !isDead {
		of.Visibility, of.MaxReceives = cmp.Or(s.Visibility, of.Visibility), cmp.Or(s.MaxReceives, of.MaxReceives)
	}
	attributes := map[string]string{
		"VisibilityTimeout":      seconds(of.Visibility),
		"MessageRetentionPeriod": seconds(of.Retention),
	}
	if !isDead {
		redrive, err := json.Marshal(map[string]any{"deadLetterTargetArn": dead, "maxReceiveCount": of.MaxReceives})
		if err != nil {
			t.Fatal(err)
		}
		attributes["RedrivePolicy"] = string(redrive)
	}
	return attributes
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
