package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/engine/queue"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/ledger"
	"fedpost/internal/message"
)

// accepted checks an answer of 202 and returns it.
func (w *world) accepted(res response, status string) map[string]any {
	w.Helper()
	if res.Status != http.StatusAccepted {
		w.Fatalf("answered %d %s", res.Status, res.Body)
	}
	got := res.json(w)
	if got["status"] != status {
		w.Fatalf("answered %s, want %s", res.Body, status)
	}
	return got
}

// sent decodes what is on a queue.
func (w *world) sent(n queue.Name) []message.Message {
	w.Helper()
	var all []message.Message
	for _, r := range w.received(n) {
		m, err := message.Decode(r.Body)
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestAnActivityIsStoredAndAnsweredAtOnce(t *testing.T) {
	w := newWorld(t).withKey()
	res := w.do("POST", "/v1/activities", submission())
	got := w.accepted(res, "queued")
	id, _ := got["id"].(string)
	if got["recipients"] != 2.0 || res.Header.Get("Location") != "/v1/activities/"+id {
		t.Errorf("answered %s, %v", res.Body, res.Header)
	}
	sent := w.sent(queue.Normal)
	if len(sent) != 1 || string(sent[0].Activity.ID) != id || len(sent[0].Deliver.Targets) != 2 {
		t.Fatalf("sent %+v", sent)
	}
	view := w.do("GET", "/v1/activities/"+id, "")
	if view.Status != 200 || view.json(t)["status"] != "queued" || view.json(t)["id"] != id {
		t.Errorf("view is %d %s", view.Status, view.Body)
	}
}

// TestACheckSaysWhatACallWouldComeTo, refuses what the call would refuse, and stores nothing.
func TestACheckSaysWhatACallWouldComeTo(t *testing.T) {
	w := newWorld(t, func(o *api.Options) {
		o.Refuses = func(inbox string) error {
			if strings.Contains(inbox, "10.0.0.7") {
				return errors.New("address 10.0.0.7 is not allowed: private use")
			}
			return nil
		}
	}).withKey()
	const rest = `"allowKeyOfOther":true,"keyId":"` + keyID + `","deduplicationKey":"k"}`
	const recipients = `"recipients":[{"inbox":"https://b.example/1","sharedInbox":"https://b.example/s"},
		{"inbox":"https://b.example/2","sharedInbox":"https://b.example/s"}, "https://b.example/2", "https://a.example/i", "https://10.0.0.7/i"],`
	got := w.do("POST", "/v1/activities/check", `{"activity":`+note+`,`+recipients+rest)
	want := `{"recipients":4,"inboxes":3,"shared":[{"inbox":"https://b.example/s","recipients":2}],"refused":[{"inbox":"https://10.0.0.7/i","detail":"address 10.0.0.7 is not allowed: private use"}]}`
	if got.Status != http.StatusOK || strings.TrimSpace(got.Body) != want {
		t.Errorf("answered %d %s, want %s", got.Status, got.Body, want)
	}
	refused(t, w.do("POST", "/v1/activities/check", `{"activity":`+note+`,"recipients":["ftp://a.example"],`+rest), 400, "recipients/0/inbox")
	refused(t, w.do("POST", "/v1/activities/check", `{"activity":`+note+`,"recipients":7,`+rest), 400, "recipients")
	var many []string
	for i := range 1100 {
		many = append(many, fmt.Sprintf(`"https://10.0.0.7/%d",{"inbox":"https://b.example/u%[1]d","sharedInbox":"https://b.example/s%[1]d"},{"inbox":"https://b.example/v%[1]d","sharedInbox":"https://b.example/s%[1]d"}`, i))
	}
	var cut client.Checked
	if err := json.Unmarshal([]byte(w.do("POST", "/v1/activities/check", `{"activity":`+note+`,"recipients":[`+strings.Join(many, ",")+`],`+rest).Body), &cut); err != nil {
		t.Fatal(err)
	}
	if cut.Recipients != 3300 || cut.Inboxes != 2200 || len(cut.Shared) != 1000 || len(cut.Refused) != 1000 {
		t.Errorf("of many it says %d recipients, %d inboxes, %d shared, %d refused", cut.Recipients, cut.Inboxes, len(cut.Shared), len(cut.Refused))
	}
	if sent := w.sent(queue.Normal); len(sent) != 0 {
		t.Errorf("%d messages were sent", len(sent))
	}
	w.accepted(w.do("POST", "/v1/activities", `{"activity":`+note+`,`+recipients+rest), "queued") // its key is not taken
}

func TestTheSubmittedBytesAreSentWhateverIsAroundThem(t *testing.T) {
	for _, text := range []string{
		note,
		"{\n\t\"actor\" : \"a\",  \"x\":\"<b>&amp;</b> \\u003c \u2028 🐘\" ,\"X\" : 1.0\r\n}",
		`{"z":1,"actor":"a","a":[ ],"n":1E400,"s":"\ud800"}`,
	} {
		for _, around := range []string{`{"activity":%s,%s}`, "{%[2]s,\n \"activity\" : \t%[1]s \n}"} {
			w := newWorld(t).withKey()
			w.accepted(w.do("POST", "/v1/activities", fmt.Sprintf(around, text, `"allowKeyOfOther":true,"keyId":"`+keyID+`","recipients":["https://a.example/i"]`)), "queued")
			if got := w.sent(queue.Normal)[0].Activity.Body; got != text {
				t.Errorf("%q became %q", text, got)
			}
		}
	}
}

func TestEveryFieldOfARequestCounts(t *testing.T) {
	w := newWorld(t).withKey()
	w.accepted(w.do("POST", "/v1/activities", `{
		"protocol": "activitypub", "activity": `+note+`, "keyId": "`+keyID+`",
		"recipients": ["https://a.example/1", {"inbox": "https://b.example/1", "sharedInbox": "https://b.example/s"}, {"inbox": "https://b.example/2", "sharedInbox": "https://b.example/s"}],
		"deduplicationKey": "k", "deduplicationTtl": "PT2H", "delay": 60, "priority": "high", "expiresIn": "P1D",
		"preferSharedInbox": true, "coalesce": "latest", "coalesceCreate": true, "metadata": {"row": [1, {}]}
	}`), "queued")
	created := w.clock
	if n := len(w.received(queue.High)); n > 0 {
		t.Fatalf("%d sent at once", n)
	}
	w.clock = w.clock.Add(time.Minute)
	m := w.sent(queue.High)[0]
	a := m.Activity
	if a.KeyID != keyID || a.Priority != activity.High || a.Coalesce != activity.CoalesceLatest || !a.CoalesceCreate || a.Metadata != `{"row":[1,{}]}` || !a.ExpiresAt.Equal(created.Add(24*time.Hour+time.Minute)) {
		t.Errorf("activity %+v", a)
	}
	if got := m.Deliver.Targets; len(got) != 2 || got[1].Stands != 2 || !got[1].Shared {
		t.Errorf("targets %+v", got)
	}
	ordered := w.do("POST", "/v1/activities", submission(`"orderingKey":"o"`, `"preferSharedInbox":false`))
	w.accepted(ordered, "queued")
	if a := w.sent(queue.Ordered)[0].Activity; a.OrderingKey != "o" {
		t.Errorf("activity %+v", a)
	}
}

func TestEverySharedInboxIsPreferredUnlessTheCallerOptsOut(t *testing.T) {
	recipients := `[{"inbox":"https://b.example/1","sharedInbox":"https://b.example/s"},{"inbox":"https://b.example/2","sharedInbox":"https://b.example/s"}]`
	for more, want := range map[string]int{"": 1, `,"preferSharedInbox":true`: 1, `,"preferSharedInbox":false`: 2} {
		w := newWorld(t).withKey()
		w.accepted(w.do("POST", "/v1/activities", `{"activity":`+note+`,"keyId":"`+keyID+`","recipients":`+recipients+more+`}`), "queued")
		if got := len(w.sent(queue.Normal)[0].Deliver.Targets); got != want {
			t.Errorf("with %q %d targets, want %d", more, got, want)
		}
	}
}

func TestDurationsAreISO8601OrSeconds(t *testing.T) {
	for value, want := range map[string]time.Duration{
		`60`: time.Minute, `0.5`: 500 * time.Millisecond, `"60"`: time.Minute, `6e1`: time.Minute, `0`: 0,
		`"PT1M"`: time.Minute, `"PT1H30M5S"`: time.Hour + 30*time.Minute + 5*time.Second, `"PT0.25S"`: 250 * time.Millisecond,
		`"P1D"`: 24 * time.Hour, `"P1W"`: 7 * 24 * time.Hour, `"P1DT1H"`: 25 * time.Hour, `"PT36H"`: 36 * time.Hour,
	} {
		w := newWorld(t).withKey()
		var got time.Duration
		w.api = api.New(api.Options{Enqueuer: catch{func(r enqueue.Request) { got = r.Delay }}, Now: time.Now, Log: discard, RequestID: func() string { return "r" }})
		w.accepted(w.do("POST", "/v1/activities", submission(`"delay":`+value)), "queued")
		if got != want {
			t.Errorf("%s is %s, want %s", value, got, want)
		}
	}
}

func TestASipherJobCarriesItsPayloadExactly(t *testing.T) {
	w := newWorld(t)
	payload := `{"method":"FEDERATE", "following":{"id":"1 <>& ` + "\u2028" + ` 🐘"}}`
	encoded, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	job := `{"protocol":"sipher","job":"deliver-follow","serverUrl":"https://b.example","recipients":["https://b.example/api/auth/social/follows"],"payload":%s%s}`
	w.accepted(w.do("POST", "/v1/activities", fmt.Sprintf(job, encoded, "")), "queued")
	a := w.sent(queue.Normal)[0].Activity
	if a.Body != payload || a.Job != "deliver-follow" || a.ServerURL != "https://b.example" || a.Protocol != activity.Sipher {
		t.Errorf("activity %+v", a)
	}
	for more, pointer := range map[string]string{
		`,"activity":{}`:                        "#/activity",
		`,"keyId":"k"`:                          "#/keyId",
		`,"recipients":["https://c.example/x"]`: "#/recipients",
	} {
		if got := refused(t, w.do("POST", "/v1/activities", fmt.Sprintf(job, encoded, more)), 400, ""); got[pointer] == "" {
			t.Errorf("%s: faults %v", more, got)
		}
	}
	if got := refused(t, w.do("POST", "/v1/activities", fmt.Sprintf(job, `{"method":"FEDERATE"}`, "")), 400, ""); !strings.Contains(got["#/payload"], "not a string") {
		t.Errorf("faults %v", got)
	}
	if got := refused(t, w.do("POST", "/v1/activities", fmt.Sprintf(job, `"\udc00"`, "")), 400, ""); !strings.Contains(got["#/payload"], "surrogate") {
		t.Errorf("faults %v", got)
	}
}

func TestADuplicateIsAnsweredWithTheFirstID(t *testing.T) {
	w := newWorld(t).withKey()
	first := w.accepted(w.do("POST", "/v1/activities", submission(`"deduplicationKey":"k"`)), "queued")
	again := w.accepted(w.do("POST", "/v1/activities", submission(`"deduplicationKey":"k"`)), "duplicate")
	if again["id"] != first["id"] || again["recipients"] != first["recipients"] {
		t.Errorf("first %v, again %v", first, again)
	}
	if n := len(w.sent(queue.Normal)); n != 1 {
		t.Errorf("%d sent", n)
	}
	res := w.do("POST", "/v1/activities", submission(`"deduplicationKey":"k"`, `"expiresIn":60`))
	refused(t, res, http.StatusUnprocessableEntity, "different request")
	if res.json(t)["id"] != first["id"] {
		t.Errorf("answered %s", res.Body)
	}
}

func TestIdempotencyKeyIsTheDeduplicationKey(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		key     string
	}{
		"a structured string": {[]string{`"order-1"`}, "order-1"},
		"bare":                {[]string{`order-1`}, "order-1"},
		"a bare UUID":         {[]string{`8e03978e-40d5-43dd-bc93-6894a57f9324`}, "8e03978e-40d5-43dd-bc93-6894a57f9324"},
		"space around":        {[]string{`  "order-1"  `}, "order-1"},
		"escapes":             {[]string{`"a\"b\\c"`}, `a"b\c`},
		"parameters":          {[]string{`"order-1";a=1`}, "order-1"},
		"a comma":             {[]string{`"a, b"`}, "a, b"},
		"cut at its comma":    {[]string{`"a`, `b"`}, "a,b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).withKey()
			var headers []string
			for _, h := range c.headers {
				headers = append(headers, "Idempotency-Key", h)
			}
			first := w.accepted(w.do("POST", "/v1/activities", submission(), headers...), "queued")
			key, err := json.Marshal(c.key)
			if err != nil {
				t.Fatal(err)
			}
			again := w.accepted(w.do("POST", "/v1/activities", submission(`"deduplicationKey":`+string(key))), "duplicate")
			if again["id"] != first["id"] {
				t.Errorf("another activity")
			}
			both := w.accepted(w.do("POST", "/v1/activities", submission(`"deduplicationKey":`+string(key)), headers...), "duplicate")
			if both["id"] != first["id"] {
				t.Errorf("another activity with both")
			}
		})
	}
}

func TestBadIdempotencyKeysAreRefused(t *testing.T) {
	for header, says := range map[string]string{
		`""`:        "is empty",
		` `:         "is empty",
		`"open`:     "no closing quote",
		`"a" b`:     "goes on",
		`"a","b"`:   "goes on",
		`"a\nb"`:    "backslash",
		`"a\`:       "backslash",
		"\"a\x80\"": "printable",
	} {
		w := newWorld(t).withKey()
		got := refused(t, w.do("POST", "/v1/activities", submission(), "Idempotency-Key", header), 400, "")
		if !strings.Contains(got["#/deduplicationKey"], says) {
			t.Errorf("%s: %v", header, got)
		}
	}
	w := newWorld(t).withKey()
	got := refused(t, w.do("POST", "/v1/activities", submission(`"deduplicationKey":"a"`), "Idempotency-Key", "b"), 400, "")
	if !strings.Contains(got["#/deduplicationKey"], "differs") {
		t.Errorf("two keys: %v", got)
	}
	if n := len(w.received(queue.Normal)); n > 0 {
		t.Errorf("%d sent", n)
	}
}

func TestABatchIsOneMessageWithOneKey(t *testing.T) {
	w := newWorld(t).withKey()
	batch := `{"activities":[` + submission() + `,` + submission(`"expiresIn":60`) + `],"deduplicationKey":"k","deduplicationTtl":"PT2H"}`
	first := w.accepted(w.do("POST", "/v1/activities/batch", batch), "queued")
	again := w.accepted(w.do("POST", "/v1/activities/batch", batch, "Idempotency-Key", `"k"`), "duplicate")
	a, b := first["activities"].([]any), again["activities"].([]any)
	if len(a) != 2 || len(b) != 2 {
		t.Fatalf("first %v, again %v", first, again)
	}
	sent := w.sent(queue.Normal)
	if len(sent) != 1 || len(sent[0].Batch) != 2 {
		t.Fatalf("sent %+v", sent)
	}
	for i := range a {
		one, other := a[i].(map[string]any), b[i].(map[string]any)
		if one["id"] != other["id"] || one["status"] != "queued" || other["status"] != "duplicate" || one["recipients"] != 2.0 {
			t.Errorf("activity %d: %v, then %v", i, one, other)
		}
		if string(sent[0].Batch[i].Activity.ID) != one["id"] {
			t.Errorf("activity %d was sent under another id", i)
		}
	}
}

// catch is an Enqueuer that shows what it gets.
type catch struct{ got func(enqueue.Request) }

func (c catch) Enqueue(_ context.Context, r enqueue.Request) (enqueue.Result, error) {
	c.got(r)
	return enqueue.Result{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Status: enqueue.Queued}, nil
}

func (c catch) EnqueueBatch(context.Context, enqueue.BatchRequest) ([]enqueue.Result, error) {
	return nil, errors.New("no batches here")
}

func (c catch) Check(context.Context, enqueue.Request) (enqueue.Preview, error) {
	return enqueue.Preview{}, nil
}

func (c catch) CheckBatch(context.Context, enqueue.BatchRequest) ([]enqueue.Fault, error) {
	return nil, nil
}

// failing is an Enqueuer that fails.
type failing struct {
	catch
	err error
}

func (f failing) Enqueue(context.Context, enqueue.Request) (enqueue.Result, error) {
	return enqueue.Result{}, f.err
}

func (f failing) EnqueueBatch(context.Context, enqueue.BatchRequest) ([]enqueue.Result, error) {
	return nil, f.err
}

func (f failing) Check(context.Context, enqueue.Request) (enqueue.Preview, error) {
	return enqueue.Preview{}, f.err
}

func TestEveryFailureSaysWhatToDo(t *testing.T) {
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	outage := errors.New("dial tcp 10.0.0.7: refused")
	for name, c := range map[string]struct {
		err        error
		key        string
		status     int
		kind, says string
		retry      string
	}{
		"held":              {&dedup.HeldError{ID: id, RetryAfter: 12300 * time.Millisecond}, "k", 409, "in-progress", id, "13"},
		"another request":   {&dedup.MismatchError{ID: id}, "k", 422, "key-reused", id, ""},
		"unavailable":       {fmt.Errorf("%w: %w", dedup.ErrUnavailable, outage), "k", 503, "deduplication-unavailable", "Nothing was queued", "5"},
		"not sent":          {&enqueue.SendError{Err: outage}, "", 503, "not-queued", "Try again", "5"},
		"maybe, with key":   {&enqueue.SendError{Err: outage, MaybeSent: true}, "k", 503, "unknown-outcome", "will not be queued twice", "5"},
		"maybe, no key":     {&enqueue.SendError{Err: outage, MaybeSent: true}, "", 503, "unknown-outcome", "may deliver it twice", "5"},
		"a mistake of ours": {outage, "", 500, "", "our side", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *api.Options) { o.Enqueuer = failing{err: c.err} })
			for _, call := range []struct{ path, body string }{
				{"/v1/activities", submission()},
				{"/v1/activities/batch", `{"activities":[` + submission() + `]}`},
			} {
				res := w.do("POST", call.path, call.body, "Idempotency-Key", c.key)
				refused(t, res, c.status, c.says)
				if got := res.Header.Get("Retry-After"); got != c.retry {
					t.Errorf("Retry-After is %q, want %q", got, c.retry)
				}
				if c.kind != "" && res.json(t)["type"] != "urn:fedpost:problem:"+c.kind {
					t.Errorf("answered %s", res.Body)
				}
				if strings.Contains(res.Body, "10.0.0.7") {
					t.Errorf("the client is told of our network: %s", res.Body)
				}
			}
			if c.status >= 500 && !strings.Contains(w.log.String(), "10.0.0.7") {
				t.Error("the log lacks the cause")
			}
		})
	}
}

func TestAnOutageDoesNotHideTheFaultsOfARequest(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Enqueuer = failing{err: errors.New("outage")} })
	if got := refused(t, w.do("POST", "/v1/activities", submission(`"typo":1`)), 400, ""); got["#/typo"] == "" {
		t.Errorf("faults %v", got)
	}
}

func TestViewsArePagedAndTheirParametersChecked(t *testing.T) {
	w := newWorld(t).withKey()
	id := w.accepted(w.do("POST", "/v1/activities", submission()), "queued")["id"].(string)
	path := "/v1/activities/" + id
	if got := w.do("GET", path+"?limit=1", "").json(t)["recipients"].([]any); len(got) != 1 {
		t.Errorf("%d recipients", len(got))
	}
	for query, says := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "cursor=bad": "cursor", "typo=1": "typo", "limit=1&limit=2": "limit", "limit=%zz": "malformed",
		"limit=": "limit is empty", "state=": "state is empty", "host=&limit=1": "host is empty",
	} {
		refused(t, w.do("GET", path+"?"+query, ""), 400, says)
	}
	if res := w.do("GET", path+"?cursor=", ""); res.Status != 200 {
		t.Errorf("an empty cursor is the beginning, not %d %s", res.Status, res.Body)
	}
}

func TestUnknownActivitiesAreNotFound(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "x", "01ARZ3NDEKTSV4RRFFQ69G5FA", "%2e%2e", "81ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		refused(t, w.do("GET", "/v1/activities/"+id, ""), 404, "no such activity")
		refused(t, w.do("POST", "/v1/activities/"+id+"/cancel", ""), 404, "no such activity")
	}
}

func TestCancelIsRecordedAndRepeatable(t *testing.T) {
	w := newWorld(t).withKey()
	id := w.accepted(w.do("POST", "/v1/activities", submission(`"delay":"PT1H"`)), "queued")["id"].(string)
	for range 2 {
		res := w.do("POST", "/v1/activities/"+id+"/cancel", "")
		if res.Status != 200 || res.json(t)["status"] != "cancelled" || res.json(t)["id"] != id {
			t.Errorf("answered %d %s", res.Status, res.Body)
		}
		if got := fmt.Sprint(res.json(t)["counts"]); got != "map[cancelled:2]" {
			t.Errorf("counts %s", got)
		}
	}
	r, err := w.store.Activity(t.Context(), activity.ID(id))
	if err != nil || !r.Cancelled {
		t.Errorf("record %+v, %v", r, err)
	}
}

// unreachable are records that cannot be read.
type unreachable struct{}

func (unreachable) View(context.Context, activity.ID, ledger.RecipientFilter, string, int) (ledger.View, error) {
	return ledger.View{}, errors.New("dial tcp 10.0.0.7")
}

func (unreachable) CancelActivity(context.Context, activity.ID) error {
	return errors.New("dial tcp 10.0.0.7")
}

func TestUnreachableRecordsAreA503(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.Activities = unreachable{} })
	for _, res := range []response{
		w.do("GET", "/v1/activities/01ARZ3NDEKTSV4RRFFQ69G5FAV", ""),
		w.do("POST", "/v1/activities/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", ""),
	} {
		refused(t, res, 503, "Try again")
		if res.Header.Get("Retry-After") == "" || strings.Contains(res.Body, "10.0.0.7") {
			t.Errorf("answered %s, %v", res.Body, res.Header)
		}
	}
}

// ended is an activity that is done, from the beginning or from its cancellation on.
type ended struct {
	*records
	cancelled, late bool
}

func (e *ended) View(ctx context.Context, id activity.ID, _ ledger.RecipientFilter, _ string, _ int) (ledger.View, error) {
	v := ledger.View{ID: id, Status: ledger.StatusDone, Counts: map[activity.State]int{activity.Delivered: 2}}
	if e.late && !e.cancelled {
		v.Status = ledger.StatusDelivering
	}
	return v, nil
}

func (e *ended) CancelActivity(context.Context, activity.ID) error {
	e.cancelled = true
	return nil
}

func TestCancellingWhatIsDoneIsAConflict(t *testing.T) {
	for _, e := range []*ended{{}, {late: true}} {
		w := newWorld(t, func(o *api.Options) { o.Activities = e })
		refused(t, w.do("POST", "/v1/activities/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", ""), 409, "nothing to cancel")
		if e.cancelled != e.late {
			t.Errorf("an activity that is done was cancelled: %v", e.cancelled)
		}
	}
}
