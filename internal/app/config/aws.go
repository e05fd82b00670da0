package config

import (
	"net/url"

	"fedpost/internal/engine/queue"
)

// Queues are the URLs of the SQS queues.
type Queues struct {
	High        string `env:"QUEUE_URL_HIGH" must:"set" help:"the URL of the standard queue for urgent activities"`
	Normal      string `env:"QUEUE_URL_NORMAL" must:"set" help:"the URL of the standard queue for ordinary activities"`
	Low         string `env:"QUEUE_URL_LOW" must:"set" help:"the URL of the standard queue for activities that can wait"`
	Ordered     string `env:"QUEUE_URL_ORDERED" must:"set" help:"the URL of the FIFO queue for activities with an ordering key"`
	Dead        string `env:"QUEUE_URL_DEAD" must:"set" help:"the URL of the standard dead-letter queue"`
	DeadOrdered string `env:"QUEUE_URL_DEAD_ORDERED" must:"set" help:"the URL of the FIFO dead-letter queue"`
}

// URLs returns the URLs by the queues' roles.
func (q Queues) URLs() map[queue.Name]string {
	return map[queue.Name]string{
		queue.High: q.High, queue.Normal: q.Normal, queue.Low: q.Low,
		queue.Ordered: q.Ordered, queue.Dead: q.Dead, queue.DeadOrdered: q.DeadOrdered,
	}
}

func (q *Queues) check(r *report) {
	seen := map[string]string{}
	for _, f := range r.fields {
		value := r.env[f.Name]
		if value == "" {
			continue
		}
		if u, err := url.Parse(value); err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
			r.add(f.Name, r.shown(f)+", which is not an absolute URL", "set it to "+f.Help)
		}
		if first, ok := seen[value]; ok {
			r.add(f.Name, "names the same queue as "+first, "give each role a queue of its own")
		}
		seen[value] = f.Name
	}
}

// Table is the DynamoDB table.
type Table struct {
	Name string `env:"TABLE_NAME" must:"set" help:"the name or ARN of the DynamoDB table"`
}

// Sealing is how signing keys are protected at rest on AWS.
type Sealing struct {
	KMSKey string `env:"KMS_KEY_ID" must:"set" help:"the id, ARN or alias of the KMS key that seals signing keys"`
}
