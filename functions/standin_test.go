package functions

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/table"
	"fedpost/internal/testkit/cost"
	"fedpost/internal/testkit/memory"
)

// standIn is SQS, DynamoDB and KMS as the functions call them, in this process, so that
// tests of the built binaries need no server. It knows the calls and conditions of our
// adapters only; whether the adapters suit AWS is for the tests against real servers.
type standIn struct {
	*httptest.Server
	engine *memory.Engine
	used   *cost.Estimate // by the functions

	mu sync.Mutex
	// faults are error codes by service ("dynamodb") or operation ("SendMessage").
	faults    map[string]string
	throttled map[string]int // by metric: ReadThrottleEvents, WriteThrottleEvents
	ahead     time.Duration  // of its clock: messages come back sooner
}

func newStandIn(t testing.TB) *standIn {
	s := &standIn{used: cost.NewEstimate(), faults: map[string]string{}, throttled: map[string]int{}}
	s.engine = memory.New(func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Now().Add(s.ahead)
	}, nil)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// environment is that of a function on this stand-in.
func (s *standIn) environment(change ...string) map[string]string {
	return deployed(append([]string{"AWS_ENDPOINT_URL", s.URL, "OUTBOUND_ALLOW", "127.0.0.0/8"}, change...)...)
}

// fail makes a service or operation answer with an error code, or work again if the
// code is empty.
func (s *standIn) fail(what, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[what] = code
}

// advance moves the clock of the stand-in forward, not that of the functions.
func (s *standIn) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

type object = map[string]any

// refusal is an error as AWS sends it.
type refusal struct {
	status int
	code   string
	more   object
}

func (r refusal) Error() string { return r.code }

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	prefix, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	service := services[prefix]
	var in object
	var answer object
	err := json.NewDecoder(r.Body).Decode(&in)
	if err == nil {
		err = s.fault(service, operation)
	}
	if err == nil {
		answer, err = s.call(r, service, operation, in)
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err != nil {
		refused, ok := errors.AsType[refusal](err)
		if !ok {
			refused = refusal{status: http.StatusBadRequest, code: "ValidationException", more: object{"message": err.Error()}}
		}
		answer = object{"__type": "com.amazonaws#" + refused.code, "message": refused.code}
		for name, v := range refused.more {
			answer[name] = v
		}
		w.WriteHeader(refused.status)
	}
	if answer == nil {
		answer = object{}
	}
	_ = json.NewEncoder(w).Encode(answer) // the function sees a broken answer
}

func (s *standIn) fault(service, operation string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := s.faults[service] + s.faults[operation]
	switch code {
	case "":
		return nil
	case "ProvisionedThroughputExceededException":
		metric := "WriteThrottleEvents"
		if operation == "GetItem" || operation == "BatchGetItem" || operation == "Query" {
			metric = "ReadThrottleEvents"
		}
		s.throttled[metric]++
	case "InternalServerError":
		return refusal{status: http.StatusInternalServerError, code: code}
	}
	return refusal{status: http.StatusBadRequest, code: code}
}

func (s *standIn) call(r *http.Request, service, operation string, in object) (object, error) {
	switch service {
	case "sqs":
		return s.messages(r, operation, in)
	case "dynamodb":
		return s.items(r, operation, in)
	}
	// A sealed key is the plain one here: what KMS does is tested elsewhere.
	if operation == "Encrypt" {
		return object{"CiphertextBlob": in["Plaintext"], "KeyId": in["KeyId"]}, nil
	}
	return object{"Plaintext": in["CiphertextBlob"], "KeyId": in["KeyId"]}, nil
}

func (s *standIn) queue(in object) queue.Queue {
	name := strings.TrimSuffix(strings.TrimPrefix(path.Base(in["QueueUrl"].(string)), "fedpost-"), ".fifo")
	return cost.EstimateQueue(s.used, s.engine.Queue(queue.Name(name)))
}

func (s *standIn) messages(r *http.Request, operation string, in object) (object, error) {
	text := func(m object, name string) string { v, _ := m[name].(string); return v }
	message := func(m object) queue.Message {
		delay, _ := m["DelaySeconds"].(float64)
		out := queue.Message{
			Body: text(m, "MessageBody"), Delay: time.Duration(delay) * time.Second,
			OrderingKey: text(m, "MessageGroupId"), DeduplicationKey: text(m, "MessageDeduplicationId"),
		}
		attributes, _ := m["MessageAttributes"].(object)
		for name, v := range attributes {
			if out.Attributes == nil {
				out.Attributes = map[string]string{}
			}
			out.Attributes[name] = text(v.(object), "StringValue")
		}
		return out
	}
	sum := func(m object) string {
		sum := md5.Sum([]byte(text(m, "MessageBody")))
		return hex.EncodeToString(sum[:])
	}
	q := s.queue(in)
	switch operation {
	case "SendMessage":
		return object{"MessageId": "1", "MD5OfMessageBody": sum(in)}, q.Send(r.Context(), message(in))
	case "SendMessageBatch":
		var all []queue.Message
		var sent []object
		for _, e := range in["Entries"].([]any) {
			m := e.(object)
			all = append(all, message(m))
			sent = append(sent, object{"Id": m["Id"], "MessageId": "1", "MD5OfMessageBody": sum(m)})
		}
		return object{"Successful": sent}, errors.Join(q.SendBatch(r.Context(), all)...)
	case "ChangeMessageVisibility":
		return nil, q.ChangeVisibility(r.Context(), text(in, "ReceiptHandle"), time.Duration(in["VisibilityTimeout"].(float64))*time.Second)
	case "GetQueueAttributes":
		d, err := q.Depth(r.Context())
		return object{"Attributes": object{
			"ApproximateNumberOfMessages": strconv.Itoa(d.Visible), "ApproximateNumberOfMessagesNotVisible": strconv.Itoa(d.InFlight),
			"ApproximateNumberOfMessagesDelayed": strconv.Itoa(d.Delayed),
		}}, err
	}
	return nil, errors.New("the stand-in does not know " + operation)
}

// str, num and keyOf read attributes; itemOf and attributesOf translate items.
func str(attributes any, name string) string {
	a, _ := attributes.(object)[name].(object)
	for _, kind := range []string{"S", "N", "B"} {
		if v, ok := a[kind].(string); ok {
			return v
		}
	}
	return ""
}

func num(attributes any, name string) int64 {
	n, _ := strconv.ParseInt(str(attributes, name), 10, 64)
	return n
}

func keyOf(attributes any) table.Key {
	return table.Key{PK: str(attributes, "pk"), SK: str(attributes, "sk")}
}

func itemOf(attributes any) (table.Item, error) {
	data, err := base64.StdEncoding.DecodeString(str(attributes, "data"))
	it := table.Item{Key: keyOf(attributes), Fence: str(attributes, "fence"), Data: data}
	if n := num(attributes, "expires"); n != 0 {
		it.Expires = time.Unix(n, 0)
	}
	if it.Due.Shard = str(attributes, "dueShard"); it.Due.Shard != "" {
		it.Due.At = time.UnixMilli(num(attributes, "dueAt"))
	}
	return it, err
}

func attributesOf(it table.Item) object {
	a := object{"pk": object{"S": it.PK}, "sk": object{"S": it.SK}}
	if it.Fence != "" {
		a["fence"] = object{"S": it.Fence}
	}
	if len(it.Data) > 0 {
		a["data"] = object{"B": base64.StdEncoding.EncodeToString(it.Data)}
	}
	if !it.Expires.IsZero() {
		a["expires"] = object{"N": strconv.FormatInt(it.Expires.Unix(), 10)}
	}
	if it.Due.Shard != "" {
		a["dueShard"], a["dueAt"] = object{"S": it.Due.Shard}, object{"N": strconv.FormatInt(it.Due.At.UnixMilli(), 10)}
	}
	return a
}

func condOf(in object) table.Cond {
	text, _ := in["ConditionExpression"].(string)
	c := table.Cond{Absent: strings.Contains(text, "attribute_not_exists(pk)")}
	if values, ok := in["ExpressionAttributeValues"].(object); ok {
		c.Fence = str(values, ":fence")
		if n := num(values, ":now"); n != 0 {
			c.ExpiredBy = time.Unix(n, 0)
		}
	}
	return c
}

// conflict is the error of DynamoDB for a condition that did not hold.
func conflict(err error) error {
	if c, ok := errors.AsType[*table.ConflictError](err); ok {
		more := object{}
		if c.Found != nil {
			more["Item"] = attributesOf(*c.Found)
		}
		return refusal{http.StatusBadRequest, "ConditionalCheckFailedException", more}
	}
	return err
}

func (s *standIn) items(r *http.Request, operation string, in object) (object, error) {
	ctx, tbl := r.Context(), cost.EstimateTable(s.used, s.engine.Table())
	switch operation {
	case "GetItem":
		got, err := tbl.Get(ctx, keyOf(in["Key"]))
		for _, it := range got {
			return object{"Item": attributesOf(it)}, err
		}
		return nil, err
	case "BatchGetItem":
		answer := object{}
		for name, part := range in["RequestItems"].(object) {
			all := []object{}
			for _, k := range part.(object)["Keys"].([]any) {
				got, err := tbl.Get(ctx, keyOf(k))
				if err != nil {
					return nil, err
				}
				for _, it := range got {
					all = append(all, attributesOf(it))
				}
			}
			answer[name] = all
		}
		return object{"Responses": answer}, nil
	case "Query":
		return query(r, tbl, in)
	case "PutItem":
		it, err := itemOf(in["Item"])
		if err != nil {
			return nil, err
		}
		return nil, conflict(tbl.Put(ctx, it, condOf(in)))
	case "DeleteItem":
		return nil, conflict(tbl.Delete(ctx, keyOf(in["Key"]), condOf(in)))
	case "BatchWriteItem":
		for _, writes := range in["RequestItems"].(object) {
			for _, w := range writes.([]any) {
				if put, ok := w.(object)["PutRequest"].(object); ok {
					it, err := itemOf(put["Item"])
					if err = errors.Join(err, tbl.Put(ctx, it, table.Cond{})); err != nil {
						return nil, err
					}
				} else if err := tbl.Delete(ctx, keyOf(w.(object)["DeleteRequest"].(object)["Key"]), table.Cond{}); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	case "TransactWriteItems":
		return transact(r, tbl, in)
	}
	return nil, errors.New("the stand-in does not know " + operation)
}

func query(r *http.Request, tbl table.Table, in object) (object, error) {
	values, text := in["ExpressionAttributeValues"], in["KeyConditionExpression"].(string)
	limit, _ := in["Limit"].(float64)
	var items []table.Item
	var more bool
	var err error
	if in["IndexName"] != nil {
		items, err = tbl.Due(r.Context(), str(values, ":shard"), time.UnixMilli(num(values, ":by")), int(limit))
	} else {
		q := table.Range{PK: str(values, ":pk"), From: str(values, ":from"), To: str(values, ":to"), Limit: int(limit)}
		if strings.Contains(text, "BETWEEN") {
			q.To += "\x00" // BETWEEN includes its end
		}
		forward, said := in["ScanIndexForward"].(bool)
		q.Newest = said && !forward
		if start, ok := in["ExclusiveStartKey"].(object); ok && q.Newest {
			q.To = str(start, "sk")
		} else if ok {
			q.From = str(start, "sk") + "\x00"
		}
		items, more, err = tbl.Query(r.Context(), q)
	}
	answer := object{}
	all := []object{}
	for _, it := range items {
		all = append(all, attributesOf(it))
	}
	if answer["Items"] = all; more {
		last := items[len(items)-1].Key
		answer["LastEvaluatedKey"] = object{"pk": object{"S": last.PK}, "sk": object{"S": last.SK}}
	}
	return answer, err
}

func transact(r *http.Request, tbl table.Table, in object) (object, error) {
	var ops []table.Op
	for _, e := range in["TransactItems"].([]any) {
		for kind, v := range e.(object) {
			part := v.(object)
			op, key := table.Op{Cond: condOf(part)}, table.Key{}
			if part["Key"] != nil {
				key = keyOf(part["Key"])
			}
			switch kind {
			case "Put":
				it, err := itemOf(part["Item"])
				if err != nil {
					return nil, err
				}
				op.Put = &it
			case "Delete":
				op.Delete = &key
			default:
				op.Check = &key
			}
			ops = append(ops, op)
		}
	}
	err := tbl.Transact(r.Context(), ops)
	c, ok := errors.AsType[*table.ConflictError](err)
	if !ok {
		return nil, err
	}
	var reasons []object
	for _, op := range ops {
		at := table.Key{}
		for _, k := range []*table.Key{op.Delete, op.Check} {
			if k != nil {
				at = *k
			}
		}
		if op.Put != nil {
			at = op.Put.Key
		}
		reason := object{"Code": "None"}
		if at == c.Key {
			if reason["Code"] = "ConditionalCheckFailed"; c.Found != nil {
				reason["Item"] = attributesOf(*c.Found)
			}
		}
		reasons = append(reasons, reason)
	}
	return nil, refusal{http.StatusBadRequest, "TransactionCanceledException", object{"CancellationReasons": reasons}}
}
