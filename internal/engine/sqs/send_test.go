package sqs

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"pgregory.net/rapid"

	"fedpost/internal/testkit/faults/wire"

	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/property"
)

// entry is one entry of a request, as it was sent.
type entry struct {
	ID      string `json:"Id"`
	Body    string `json:"MessageBody"`
	Group   string `json:"MessageGroupId"`
	DedupID string `json:"MessageDeduplicationId"`
	Delay   int    `json:"DelaySeconds"`
}

// service is an SQS server that fails the entries that a test chooses.
type service struct {
	mu       sync.Mutex
	requests [][]entry
	sent     []string // bodies taken
	// fails returns the error code of an entry, "" to take it; a code that
	// starts with "!" is the service's own fault, "-" leaves it out of the answer.
	fails func(e entry, request int) string
}

func (s *service) serve(operation string, body []byte) wire.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if operation == "SendMessage" {
		var e entry
		if err := json.Unmarshal(body, &e); err != nil {
			return wire.Answer{Status: 400, Error: err.Error()}
		}
		s.requests, s.sent = append(s.requests, []entry{e}), append(s.sent, e.Body)
		return wire.Answer{Body: map[string]any{"MessageId": "m", "MD5OfMessageBody": sum(e.Body)}}
	}
	var in struct{ Entries []entry }
	if err := json.Unmarshal(body, &in); err != nil {
		return wire.Answer{Status: 400, Error: err.Error()}
	}
	s.requests = append(s.requests, in.Entries)
	var taken, failed []any
	for _, e := range in.Entries {
		code := ""
		if s.fails != nil {
			code = s.fails(e, len(s.requests))
		}
		switch {
		case code == "":
			s.sent = append(s.sent, e.Body)
			taken = append(taken, map[string]any{"Id": e.ID, "MessageId": "m", "MD5OfMessageBody": sum(e.Body)})
		case code != "-":
			own, code := strings.HasPrefix(code, "!"), strings.TrimPrefix(code, "!")
			failed = append(failed, map[string]any{"Id": e.ID, "Code": code, "Message": "told to", "SenderFault": !own})
		}
	}
	return wire.Answer{Body: map[string]any{"Successful": taken, "Failed": failed}}
}

func sum(body string) string {
	s := md5.Sum([]byte(body))
	return hex.EncodeToString(s[:])
}

func open(t *testing.T, s *service, name queue.Name, fs ...wire.Fault) *Queue {
	cfg := wire.Start(t, s.serve)
	faulty := wire.NewWire(fs...)
	cfg.APIOptions = append(cfg.APIOptions, faulty.Install)
	q := New(sqs.NewFromConfig(cfg), "http://127.0.0.1/queue", name, queue.Standard)
	q.pause = func(context.Context, int) error { return nil }
	t.Cleanup(func() {
		if len(fs) > 0 && faulty.Fired() == 0 {
			t.Error("no fault fired")
		}
	})
	return q
}

func fault(kind wire.Kind, request, times int) wire.Fault {
	return wire.Fault{Service: "SQS", Request: request, Times: times, Kind: kind}
}

func TestErrorOfASendSaysWhetherItMayHaveHappened(t *testing.T) {
	const always = 100
	for name, c := range map[string]struct {
		faults []wire.Fault
		want   string // sent, not sent, doubt
	}{
		"no connection":                        {[]wire.Fault{fault(wire.FailBefore, 1, always)}, "not sent"},
		"throttled":                            {[]wire.Fault{fault(wire.Throttle, 1, always)}, "not sent"},
		"time-outs":                            {[]wire.Fault{fault(wire.Timeout, 1, always)}, "doubt"},
		"broken service":                       {[]wire.Fault{fault(wire.Break, 1, always)}, "doubt"},
		"answers lost":                         {[]wire.Fault{fault(wire.DropResponse, 1, always)}, "doubt"},
		"answer lost, then throttled":          {[]wire.Fault{fault(wire.DropResponse, 1, 1), fault(wire.Throttle, 2, always)}, "doubt"},
		"time-out, then no connection":         {[]wire.Fault{fault(wire.Timeout, 1, 1), fault(wire.FailBefore, 2, always)}, "doubt"},
		"no connection, throttled, then sent":  {[]wire.Fault{fault(wire.FailBefore, 1, 1), fault(wire.Throttle, 2, 1)}, "sent"},
		"answer lost, then sent again":         {[]wire.Fault{fault(wire.DropResponse, 1, 1)}, "sent"},
		"process dies after the service acted": {[]wire.Fault{fault(wire.DieAfter, 1, 1)}, "doubt"},
	} {
		for verb, send := range map[string]func(q *Queue) error{
			"Send":      func(q *Queue) error { return q.Send(t.Context(), queue.Message{Body: "x"}) },
			"SendBatch": func(q *Queue) error { return q.SendBatch(t.Context(), []queue.Message{{Body: "x"}})[0] },
		} {
			t.Run(verb+"/"+name, func(t *testing.T) {
				err := send(open(t, &service{}, queue.Normal, c.faults...))
				got := "doubt"
				switch {
				case err == nil:
					got = "sent"
				case queue.NotSent(err):
					got = "not sent"
				}
				if got != c.want {
					t.Errorf("%s, want %s: %v", got, c.want, err)
				}
			})
		}
	}
}

func TestRefusedSendWasNotSent(t *testing.T) {
	for _, code := range []string{"QueueDoesNotExist", "AccessDeniedException", "InvalidMessageContents", "OverLimit"} {
		cfg := wire.Start(t, func(string, []byte) wire.Answer { return wire.Answer{Status: 400, Error: code} })
		q := New(sqs.NewFromConfig(cfg), "http://127.0.0.1/queue", queue.Normal, queue.Standard)
		if err := q.Send(t.Context(), queue.Message{Body: "x"}); !queue.NotSent(err) || !strings.Contains(err.Error(), "normal") {
			t.Errorf("%s: error %v, want one that says that nothing was sent to the normal queue", code, err)
		}
	}
}

func TestSendWithACancelledContextWasNotSent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &service{}
	err := open(t, s, queue.Normal).Send(ctx, queue.Message{Body: "x"})
	if !errors.Is(err, context.Canceled) || !queue.NotSent(err) || len(s.sent) != 0 {
		t.Errorf("error %v, sent %q", err, s.sent)
	}
}

func TestEntriesOfABatchFailOneByOne(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(request int) string
		want  string
		tries int
	}{
		"sender's fault":                {func(int) string { return "InvalidMessageContents" }, "not sent", 1},
		"throttled once":                {func(n int) string { return map[int]string{1: "!RequestThrottled"}[n] }, "sent", 2},
		"throttled for good":            {func(int) string { return "!RequestThrottled" }, "not sent", tries},
		"service's fault once":          {func(n int) string { return map[int]string{1: "!InternalError"}[n] }, "sent", 2},
		"service's fault for good":      {func(int) string { return "!InternalError" }, "doubt", tries},
		"service's fault, then refused": {func(n int) string { return map[int]string{1: "!InternalError", 2: "InvalidMessageContents"}[n] }, "doubt", 2},
		"not in the answer":             {func(int) string { return "-" }, "doubt", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{fails: func(e entry, request int) string {
				if e.Body == "bad" {
					return c.fails(request)
				}
				return ""
			}}
			errs := open(t, s, queue.Normal).SendBatch(t.Context(), []queue.Message{{Body: "a"}, {Body: "bad"}, {Body: "b"}})
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("the others failed too: %v", errs)
			}
			got := map[bool]string{true: "not sent", false: "doubt"}[queue.NotSent(errs[1])]
			if errs[1] == nil {
				got = "sent"
			}
			if got != c.want {
				t.Errorf("%s, want %s: %v", got, c.want, errs[1])
			}
			if len(s.requests) != c.tries {
				t.Errorf("%d requests, want %d", len(s.requests), c.tries)
			}
			for _, r := range s.requests[1:] {
				if len(r) != 1 {
					t.Errorf("a retry carries %d entries, want only the failed one", len(r))
				}
			}
			if n := count(s.sent, "a") + count(s.sent, "b"); n != 2 {
				t.Errorf("the others were sent %d times", n)
			}
		})
	}
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// Whatever fails, no message of a group is sent after an earlier message of the
// group has failed or is in doubt.
func TestBatchOnAFIFOQueueNeverOvertakes(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		var ms []queue.Message
		groups := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 30).Draw(rt, "groups")
		for i, g := range groups {
			body := fmt.Sprint(i)
			ms = append(ms, queue.Message{Body: body, OrderingKey: fmt.Sprint("g", g), DeduplicationKey: body})
		}
		bad := rapid.SliceOfN(rapid.IntRange(0, len(ms)-1), 0, 4).Draw(rt, "bad")
		code := rapid.SampledFrom([]string{"InvalidMessageContents", "!InternalError", "-"}).Draw(rt, "code")
		s := &service{fails: func(e entry, _ int) string {
			for _, i := range bad {
				if e.Body == fmt.Sprint(i) {
					return code
				}
			}
			return ""
		}}
		errs := open(t, s, queue.Ordered).SendBatch(t.Context(), ms)
		failed := make(map[string]bool)
		for i, m := range ms {
			switch {
			case failed[m.OrderingKey] && (count(s.sent, m.Body) > 0 || !queue.NotSent(errs[i])):
				rt.Errorf("message %d follows a failed one of its group: error %v", i, errs[i])
			case !failed[m.OrderingKey] && errs[i] == nil && count(s.sent, m.Body) != 1:
				rt.Errorf("message %d was sent %d times", i, count(s.sent, m.Body))
			}
			failed[m.OrderingKey] = failed[m.OrderingKey] || errs[i] != nil
		}
		for _, r := range s.requests {
			inRequest := make(map[string]bool)
			for _, e := range r {
				if inRequest[e.Group] {
					rt.Errorf("a request has two messages of a group")
				}
				inRequest[e.Group] = true
			}
		}
	})
}

// SQS must be able to take every batch, and no message may be lost or doubled.
func TestBatchesKeepTheLimitsOfSQS(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{1, 1000, 100 << 10, 200 << 10, 512 << 10, queue.MaxBytes - 1, queue.MaxBytes}), 0, 40).Draw(rt, "sizes")
		var ms []queue.Message
		var all []int
		for i, n := range sizes {
			ms, all = append(ms, queue.Message{Body: strings.Repeat("x", n)}), append(all, i)
		}
		batches := slices.Collect(split(ms, all))
		for _, b := range batches {
			bytes := 0
			for _, i := range b {
				bytes += ms[i].Size()
			}
			if len(b) == 0 || len(b) > queue.MaxBatch || bytes > queue.MaxBytes {
				rt.Errorf("a batch of %d messages and %d bytes", len(b), bytes)
			}
		}
		if got := slices.Concat(batches...); !slices.Equal(got, all) {
			rt.Errorf("batches hold %v, want %v", got, all)
		}
	})
}

func TestIDsOnTheWire(t *testing.T) {
	s := &service{}
	q := open(t, s, queue.Ordered)
	for _, m := range []queue.Message{
		{Body: "1", OrderingKey: "a", DeduplicationKey: "bc"},
		{Body: "2", OrderingKey: "ab", DeduplicationKey: "c"},
		{Body: "3", OrderingKey: "a", DeduplicationKey: "bc"},
		{Body: "4", OrderingKey: strings.Repeat("ü\x00", 300), DeduplicationKey: strings.Repeat("\xff", 300)},
	} {
		if err := q.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ids, groups := map[string][]string{}, map[string]bool{}
	for _, r := range s.requests {
		for _, id := range []string{r[0].DedupID, r[0].Group} {
			if id == "" || len(id) > queue.MaxDedupID || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("id %q is not one that SQS takes", id)
			}
		}
		ids[r[0].DedupID] = append(ids[r[0].DedupID], r[0].Body)
		groups[r[0].Group] = true
	}
	if got := slices.Collect(maps.Values(ids)); len(got) != 3 || len(groups) != 3 {
		t.Errorf("deduplication ids are shared like %v, and there are %d groups", got, len(groups))
	}
}

func TestDelayIsRoundedUp(t *testing.T) {
	s := &service{}
	if err := open(t, s, queue.Normal).Send(t.Context(), queue.Message{Body: "x", Delay: 1}); err != nil {
		t.Fatal(err)
	}
	if got := s.requests[0][0].Delay; got != 1 {
		t.Errorf("a delay of 1 ns goes as %d s, want 1", got)
	}
}

// A long poll takes up to 20 s. Any other call that takes so long is broken.
func TestOnlyLongPollsArePatient(t *testing.T) {
	client := sqs.NewFromConfig(wire.Start(t, (&service{}).serve))
	timeout := func(c sqs.HTTPClient) time.Duration { return c.(*awshttp.BuildableClient).GetTimeout() }
	if polls, others := timeout(New(client, "http://127.0.0.1/queue", queue.Normal, queue.Standard).polling), timeout(client.Options().HTTPClient); polls <= queue.MaxWait || others >= queue.MaxWait {
		t.Errorf("polls may take %s and others %s", polls, others)
	}
}

// TestContentsThatSQSRefusesAreRefusedForGood: if SQS refuses characters that
// Check allows, another try would not help either.
func TestContentsThatSQSRefusesAreRefusedForGood(t *testing.T) {
	s := &service{fails: func(e entry, _ int) string {
		if e.Body == "bad" {
			return "InvalidMessageContents"
		}
		return ""
	}}
	q := open(t, s, queue.Normal)
	errs := q.SendBatch(t.Context(), []queue.Message{{Body: "bad"}, {Body: "good"}})
	if !queue.Refused(errs[0]) || !queue.NotSent(errs[0]) || errs[1] != nil {
		t.Errorf("errors %v", errs)
	}
}
