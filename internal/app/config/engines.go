package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"fedpost/internal/engine/queue"
)

// Queueing is the type of the queues. The AWS engine sees it by their URLs; QUEUE_TYPE must agree.
type Queueing struct {
	Type   queue.Type `env:"QUEUE_TYPE" envDefault:"standard" help:"standard, or fifo for queues that deduplicate for 5 minutes; all QUEUE_URL_… must name queues of this type"`
	FairBy string     `env:"FAIR_BY" envDefault:"actor" help:"actor: on standard queues, an actor who sends much does not delay others (SQS charges $0.10 a million messages); none: first come, first served"`
}

// Kind is the type of the queues as engines know it.
func (q Queueing) Kind() queue.Type {
	if q.Type == queue.Standard && q.FairBy == "actor" {
		return queue.Fair
	}
	return q.Type
}

func (q *Queueing) check(r *report) {
	r.oneOf("FAIR_BY", q.FairBy, "actor", "none")
	r.oneOf("QUEUE_TYPE", string(q.Type), string(queue.Standard), string(queue.FIFO))
}

type Queues struct {
	High        string `env:"QUEUE_URL_HIGH" must:"set" help:"the URL of the queue for urgent activities"`
	Normal      string `env:"QUEUE_URL_NORMAL" must:"set" help:"the URL of the queue for ordinary activities"`
	Low         string `env:"QUEUE_URL_LOW" must:"set" help:"the URL of the queue for activities that can wait"`
	Ordered     string `env:"QUEUE_URL_ORDERED" must:"set" help:"the URL of the FIFO queue for activities with an ordering key"`
	Dead        string `env:"QUEUE_URL_DEAD" must:"set" help:"the URL of the dead-letter queue of the high, normal and low queues"`
	DeadOrdered string `env:"QUEUE_URL_DEAD_ORDERED" must:"set" help:"the URL of the FIFO dead-letter queue of the ordered queue"`
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
	typ := queue.Type(cmp.Or(r.env["QUEUE_TYPE"], string(queue.Standard)))
	if typ != queue.Standard && typ != queue.FIFO {
		return // Queueing reports that
	}
	for n, at := range q.URLs() {
		variable := "QUEUE_URL_" + strings.ToUpper(strings.ReplaceAll(string(n), "-", "_"))
		switch isFIFO := strings.HasSuffix(at, ".fifo"); {
		case at == "" || isFIFO == typ.FIFO(n):
		case isFIFO:
			r.add(variable, fmt.Sprintf("is %q, a FIFO queue, and QUEUE_TYPE is %s", at, typ), "name a standard queue, or set QUEUE_TYPE to fifo")
		case n.Ordered():
			r.add(variable, fmt.Sprintf("is %q, which is no FIFO queue", at), "name a FIFO queue, whose name ends in .fifo")
		default:
			r.add(variable, fmt.Sprintf("is %q, which is no FIFO queue, and QUEUE_TYPE is fifo", at), "name a FIFO queue, or set QUEUE_TYPE to standard")
		}
	}
}

type Table struct {
	Name string `env:"TABLE_NAME" must:"set" help:"the name or ARN of the DynamoDB table"`
}

// Sealing is how signing keys are protected at rest on AWS.
type Sealing struct {
	KMSKey string `env:"KMS_KEY_ID" must:"set" help:"the id, ARN or alias of the KMS key that seals signing keys"`
}

// DatabaseURL is the variable that asks for PostgreSQL.
const DatabaseURL = "DATABASE_URL"

// Database is the PostgreSQL database that `fedpost up` runs on, if one is named.
type Database struct {
	URL    string `env:"DATABASE_URL" secret:"true" help:"the PostgreSQL database of fedpost up, as postgres://USER:PASSWORD@HOST/DATABASE or psql's keywords; without it, and without the settings of AWS, it uses a file"`
	Schema string `env:"DATABASE_SCHEMA" envDefault:"fedpost" help:"the schema of fedpost's tables in DATABASE_URL: up to 40 lower-case letters, digits and _, beginning with a letter"`
	// OutboxRetention is how long rows of the outbox stay once they are accepted.
	OutboxRetention time.Duration `env:"OUTBOX_RETENTION" envDefault:"24h" help:"how long accepted rows of the outbox on PostgreSQL are kept; refused ones stay until they are retried or dropped"`
	SealingKey      string        `env:"SEALING_KEY" secret:"true" help:"the key that seals signing keys on DATABASE_URL, in place of the file sealing.key: its 32 bytes in base64, as base64 sealing.key prints them, the same for all processes"`
}

// sealingKeySize is the size of a sealing key in bytes.
const sealingKeySize = 32

// Sealing is SealingKey in bytes; nil if it is not set.
func (d Database) Sealing() []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(d.SealingKey))
	if err != nil || len(key) != sealingKeySize {
		return nil
	}
	return key
}

func (d *Database) check(r *report) {
	switch {
	case d.SealingKey != "" && d.Sealing() == nil:
		r.add("SEALING_KEY", "is not 32 bytes in base64", "set it to what base64 sealing.key prints, or for a new database openssl rand -base64 32")
	case r.env["SEALING_KEY"] != "" && d.URL == "":
		r.add("SEALING_KEY", "is set without DATABASE_URL, whose processes share it", "set DATABASE_URL, too, or neither")
	}
	outside := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' }
	const fix = "set it to up to 40 lower-case letters, digits and _, a letter first"
	switch name := d.Schema; {
	case name == "" || len(name) > 40 || strings.ContainsFunc(name, outside) || !unicode.IsLetter(rune(name[0])), strings.HasPrefix(name, "pg_"):
		r.add("DATABASE_SCHEMA", r.shown(r.fields[1]), fix)
	case r.env["DATABASE_SCHEMA"] != "" && d.URL == "":
		r.add("DATABASE_SCHEMA", "is set without DATABASE_URL, so fedpost would run on a file", "set DATABASE_URL, too, or neither")
	}
}
