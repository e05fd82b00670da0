package enqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/enqueue"
	"fedpost/internal/enqueue/dedup"
	"fedpost/internal/testkit/faults"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

func inbox(urls ...string) func(*enqueue.Request) {
	return func(r *enqueue.Request) {
		r.Recipients = nil
		for _, u := range urls {
			r.Recipients = append(r.Recipients, enqueue.Recipient{Inbox: u})
		}
	}
}

func sipher(change ...func(*enqueue.Request)) enqueue.Request {
	r := enqueue.Request{
		Protocol: activity.Sipher, Body: ptr(`{"method":"FEDERATE_POST"}`), Options: activity.Options{Job: "deliver-post", ServerURL: "https://b.example"},
		Recipients: []enqueue.Recipient{{Inbox: "https://b.example/api/auth/social/posts"}},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func TestBadInputIsNamedAndNothingIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		r       enqueue.Request
		pointer string
		says    string
	}{
		"no activity":               {request(func(r *enqueue.Request) { r.Body = nil }), "/activity", "missing"},
		"not an object":             {request(body(`["Create"]`)), "/activity", "not a JSON object"},
		"no actor":                  {request(body(`{"type":"Create"}`)), "/activity/actor", "missing"},
		"actor of another case":     {request(body(`{"Actor":"https://a.example"}`)), "/activity/actor", "missing"},
		"empty actor":               {request(body(`{"actor":""}`)), "/activity/actor", "missing"},
		"actor without id":          {request(body(`{"actor":{"type":"Person"}}`)), "/activity/actor", "missing"},
		"not UTF-8":                 {request(body("{\"actor\":\"a\xff\"}")), "/activity", "not UTF-8"},
		"too large":                 {request(body(`{"actor":"a","x":"` + strings.Repeat("x", 256<<10) + `"}`)), "/activity", "the limit is 262144"},
		"no key":                    {request(func(r *enqueue.Request) { r.KeyID = "" }), "/keyId", "missing"},
		"unknown key":               {request(func(r *enqueue.Request) { r.KeyID = "https://a.example/nobody" }), "/keyId", "names no key"},
		"key of another":            {request(ofActor("https://social.example/users/gus")), "/keyId", "not a key of the activity's actor"},
		"key of another's name":     {request(ofActor("https://social.example/users/fri")), "/keyId", "allowKeyOfOther"},
		"key of a host's own actor": {request(ofActor("https://social.example/")), "/keyId", "not a key of the activity's actor"},
		"bto":                       {request(body(`{"actor":"a","bto":["https://a.example/b"]}`)), "/activity/bto", "blind recipients"},
		"bcc":                       {request(body(`{"actor":"a","bcc":"https://a.example/b"}`)), "/activity/bcc", "leave this out"},
		"bto of its object":         {request(body(`{"actor":"a","object":{"bto":[{"id":"b"}]}}`)), "/activity/object/bto", "blind recipients"},
		"bcc in a list":             {request(body(`{"actor":"a","object":["x",{"as:bcc":["b"]}]}`)), "/activity/object/1/as:bcc", "blind recipients"},
		"bto within an Undo":        {request(body(`{"actor":"a","object":{"object":{"bto":["b"]}}}`)), "/activity/object/object/bto", "blind recipients"},
		"permission for sipher":     {sipher(func(r *enqueue.Request) { r.AllowKeyOfOther = true }), "/allowKeyOfOther", "does not belong"},
		"header of HTTP":            {request(headers("Host: a.example")), "/headers/0/name", `is "Host", which is not allowed`},
		"hop-by-hop":                {request(headers("Prefer: a", "Transfer-Encoding: chunked")), "/headers/1/name", "not allowed"},
		"a signature's header":      {request(headers("Signature: x")), "/headers/0/name", "not allowed"},
		"a body's header":           {request(headers("content-type: text/html")), "/headers/0/name", "not allowed"},
		"a credential":              {request(headers("Authorization: Bearer x")), "/headers/0/name", "not allowed"},
		"a cookie":                  {request(headers("COOKIE: x")), "/headers/0/name", "not allowed"},
		"a date":                    {request(headers("Date: now")), "/headers/0/name", "not allowed"},
		"a digest":                  {request(headers("Content-Digest: x")), "/headers/0/name", "not allowed"},
		"what proxies tell":         {request(headers("X-Forwarded-For: 127.0.0.1")), "/headers/0/name", "not allowed"},
		"what a framework obeys":    {request(headers("X-Middleware-Subrequest: middleware")), "/headers/0/name", "not allowed"},
		"who a proxy let in":        {request(headers("X-WebAuth-User: admin")), "/headers/0/name", "not allowed"},
		"only X-":                   {request(headers("X-: 1")), "/headers/0/name", "not allowed"},
		"no name":                   {request(headers(": 1")), "/headers/0/name", "missing"},
		"a name with a blank":       {request(headers("X Y: 1")), "/headers/0/name", "no name of a header"},
		"a name with a line break":  {request(headers("X-A\r\nHost: 1")), "/headers/0/name", "no name of a header"},
		"a name twice":              {request(headers("X-A: 1", "x-a: 2")), "/headers/1/name", "twice"},
		"no value":                  {request(headers("X-A:  ")), "/headers/0/value", "missing"},
		"a value with a line break": {request(headers("X-A: 1\r\nHost: b.example")), "/headers/0/value", "printable ASCII"},
		"a value in UTF-8":          {request(headers("X-A: ü")), "/headers/0/value", "printable ASCII"},
		"nine headers":              {request(headers("X-1: 1", "X-2: 1", "X-3: 1", "X-4: 1", "X-5: 1", "X-6: 1", "X-7: 1", "X-8: 1", "X-9: 1")), "/headers", "has 9 entries; the most is 8"},
		"large headers":             {request(headers("X-1: " + strings.Repeat("x", 4096))), "/headers", "has 4099 bytes; the most is 4096"},
		"a recipient's header":      {request(ofRecipient(1, "Host: x")), "/recipients/1/headers/0/name", "not allowed"},
		"a recipient's large ones":  {request(ofRecipient(1, "X-1: "+strings.Repeat("x", 1024))), "/recipients/1/headers", "the most is 1024"},
		"headers of one inbox":      {request(inbox("https://a.example/i", "https://a.example/i"), ofRecipient(1, "X-1: x")), "/recipients/1/headers", "differ"},
		"headers of a shared inbox": {request(sharing("https://a.example/inbox"), ofRecipient(0, "X-1: x")), "/recipients/1/headers", "preferSharedInbox"},
		"sipher, headers":           {sipher(headers("X-1: x")), "/headers", "does not belong"},
		"sipher, of its target":     {sipher(ofRecipient(0, "X-1: x")), "/recipients/0/headers", "does not belong"},
		"no recipients":             {request(inbox()), "/recipients", "missing or empty"},
		"relative inbox":            {request(inbox("https://a.example/inbox", "/inbox")), "/recipients/1/inbox", "absolute"},
		"no scheme":                 {request(inbox("a.example/inbox")), "/recipients/0/inbox", "absolute"},
		"scheme-relative":           {request(inbox("//a.example/inbox")), "/recipients/0/inbox", "absolute"},
		"another scheme":            {request(inbox("ftp://a.example/inbox")), "/recipients/0/inbox", "http or https"},
		"opaque":                    {request(inbox("https:a.example/inbox")), "/recipients/0/inbox", "no host"},
		"no host":                   {request(inbox("https:///inbox")), "/recipients/0/inbox", "no host"},
		"only a port":               {request(inbox("https://:443/inbox")), "/recipients/0/inbox", "no host"},
		"port too large":            {request(inbox("https://a.example:65536/inbox")), "/recipients/0/inbox", "port"},
		"port zero":                 {request(inbox("https://a.example:0/inbox")), "/recipients/0/inbox", "port"},
		"port no number":            {request(inbox("https://a.example:https/inbox")), "/recipients/0/inbox", "not a URL"},
		"user-info":                 {request(inbox("https://user:secret@a.example/inbox")), "/recipients/0/inbox", "user name"},
		"empty user-info":           {request(inbox("https://@a.example/inbox")), "/recipients/0/inbox", "user name"},
		"fragment":                  {request(inbox("https://a.example/inbox#x")), "/recipients/0/inbox", "fragment"},
		"empty fragment":            {request(inbox("https://a.example/inbox#")), "/recipients/0/inbox", "fragment"},
		"space":                     {request(inbox("https://a.example/in box")), "/recipients/0/inbox", "space"},
		"header injection":          {request(inbox("https://a.example/inbox\r\nHost: b.example")), "/recipients/0/inbox", "space"},
		"not a URL":                 {request(inbox("https://a.example/%zz")), "/recipients/0/inbox", "not a URL"},
		"bad IPv6":                  {request(inbox("https://[::1/inbox")), "/recipients/0/inbox", "not a URL"},
		"name that is no host":      {request(inbox("https://ex_-.example-/inbox")), "/recipients/0/inbox", "hyphen"},
		"address in short form":     {request(inbox("https://127.1/inbox")), "/recipients/0/inbox", "four decimal numbers"},
		"only soft hyphens":         {request(inbox("https://\u00ad/inbox")), "/recipients/0/inbox", "host"},
		"long when encoded":         {request(inbox("https://a.example/" + strings.Repeat("ü", 1000))), "/recipients/0/inbox", "longer"},
		"empty inbox":               {request(inbox("")), "/recipients/0/inbox", "empty"},
		"long inbox":                {request(inbox("https://a.example/" + strings.Repeat("x", 2048))), "/recipients/0/inbox", "longer"},
		"shared inbox":              {request(func(r *enqueue.Request) { r.Recipients[1].SharedInbox = "inbox" }), "/recipients/1/sharedInbox", "absolute"},
		"another protocol":          {request(func(r *enqueue.Request) { r.Protocol = "diaspora" }), "/protocol", "activitypub"},
		"job":                       {request(func(r *enqueue.Request) { r.Job = "deliver-post" }), "/job", "sipher"},
		"serverUrl":                 {request(func(r *enqueue.Request) { r.ServerURL = "https://a.example" }), "/serverUrl", "sipher"},
		"priority":                  {request(func(r *enqueue.Request) { r.Priority = "urgent" }), "/priority", "high, normal and low"},
		"coalesce":                  {request(func(r *enqueue.Request) { r.Coalesce = "all" }), "/coalesce", "none and latest"},
		"coalesceCreate":            {request(func(r *enqueue.Request) { r.CoalesceCreate = true }), "/coalesceCreate", "latest"},
		"negative delay":            {request(delay(-time.Second)), "/delay", "negative"},
		"delay too long":            {request(delay(30*24*time.Hour + time.Second)), "/delay", "longer than 30 days"},
		"negative expiry":           {request(func(r *enqueue.Request) { r.ExpiresIn = -1 }), "/expiresIn", "negative"},
		"long ordering key":         {request(ordered(strings.Repeat("x", 1025))), "/orderingKey", "1025 bytes"},
		"empty key":                 {request(key("")), "/deduplicationKey", "empty"},
		"window without key":        {request(ttl(time.Hour)), "/deduplicationTtl", "needs a deduplicationKey"},
		"short window":              {request(key("k"), ttl(time.Millisecond)), "/deduplicationTtl", "is 1ms; it is between 1s and 30 days"},
		"long window":               {request(key("k"), ttl(31*24*time.Hour)), "/deduplicationTtl", "is 31 days; it is between"},
		"odd window":                {request(key("k"), ttl(721*time.Hour+time.Minute)), "/deduplicationTtl", "is 721h1m;"},
		"sipher without payload":    {sipher(func(r *enqueue.Request) { r.Body = nil }), "/payload", "missing"},
		"sipher, payload too large": {sipher(body(strings.Repeat("x", 256<<10+1))), "/payload", "the limit is"},
		"sipher, control chars":     {sipher(body(strings.Repeat("\x01", 256<<10))), "/payload", "control characters"},
		"sipher without job":        {sipher(func(r *enqueue.Request) { r.Job = "" }), "/job", "missing"},
		"sipher, odd job":           {sipher(func(r *enqueue.Request) { r.Job = "deliver\npost" }), "/job", "no job name"},
		"sipher without server":     {sipher(func(r *enqueue.Request) { r.ServerURL = "" }), "/serverUrl", "empty"},
		"sipher, server with query": {sipher(func(r *enqueue.Request) { r.ServerURL = "https://b.example?x" }), "/serverUrl", "query"},
		"sipher with key":           {sipher(func(r *enqueue.Request) { r.KeyID = keyID }), "/keyId", "own identity"},
		"sipher, two targets":       {sipher(inbox("https://b.example/1", "https://b.example/2")), "/recipients", "exactly one"},
		"sipher, no target":         {sipher(inbox()), "/recipients", "missing or empty"},
		"sipher, shared inbox":      {sipher(func(r *enqueue.Request) { r.Recipients[0].SharedInbox = "https://b.example/inbox" }), "/recipients/0/sharedInbox", "does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			got := faultsOf(t, second(w.enqueue(c.r)))
			f, ok := got[c.pointer]
			if !ok || len(got) != 1 || !strings.Contains(f.Detail, c.says) {
				t.Errorf("faults %v, want one at %s that says %q", got, c.pointer, c.says)
			}
			if calls := w.calls(0); len(calls) > 0 {
				t.Errorf("calls %v", calls)
			}
		})
	}
}

func TestAllFaultsOfARequestAreReportedTogether(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	r := request(body(`{}`), inbox("x", "https://a.example/inbox", "y"), delay(-1), key(""))
	r.KeyID, r.Priority = "", "soon"
	got := faultsOf(t, second(w.enqueue(r)))
	for _, pointer := range []string{"/activity/actor", "/keyId", "/recipients/0/inbox", "/recipients/2/inbox", "/delay", "/priority", "/deduplicationKey"} {
		if _, ok := got[pointer]; !ok {
			t.Errorf("%s is not among %v", pointer, got)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d faults: %v", len(got), got)
	}
}

func TestBadInputInABatchIsNamedWithItsPlace(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	for name, c := range map[string]struct {
		requests []enqueue.Request
		pointer  string
	}{
		"none":                {nil, "/activities"},
		"too many":            {make([]enqueue.Request, 101), "/activities"},
		"a bad one":           {[]enqueue.Request{request(), request(inbox("x"))}, "/activities/1/recipients/0/inbox"},
		"two ordering keys":   {[]enqueue.Request{request(ordered("a")), request(ordered("b"))}, "/activities/1/orderingKey"},
		"ordered and not":     {[]enqueue.Request{request(), request(ordered("b"))}, "/activities/1/orderingKey"},
		"two delays":          {[]enqueue.Request{request(), request(delay(time.Hour))}, "/activities/1/delay"},
		"a window of its own": {[]enqueue.Request{request(ttl(time.Hour))}, "/activities/0/deduplicationTtl"},
	} {
		_, err := w.service.EnqueueBatch(t.Context(), enqueue.BatchRequest{Requests: c.requests})
		if got := faultsOf(t, err); len(got) != 1 || got[c.pointer].Detail == "" {
			t.Errorf("%s: faults %v, want one at %s", name, got, c.pointer)
		}
	}
	if calls := w.calls(0); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

func TestTooManyFaultsAreCutShort(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	bad := make([]string, 10*enqueue.MaxFaults)
	got := faultsOf(t, second(w.enqueue(request(inbox(bad...)))))
	if len(got) != enqueue.MaxFaults {
		t.Errorf("%d faults", len(got))
	}
}

func TestRecipientsUpToTheLimitAfterCollapse(t *testing.T) {
	limit := func(s *settings) { s.enqueue.Limits.Inboxes = 100 }
	w := newWorld(t, faults.NewPlan(), limit)
	if res, err := w.enqueue(request(func(r *enqueue.Request) { r.Recipients = inboxes(100, 0) })); err != nil || res.Recipients != 100 {
		t.Errorf("as many as allowed: %+v, %v", res, err)
	}
	got := faultsOf(t, second(w.enqueue(request(func(r *enqueue.Request) { r.Recipients = inboxes(101, 0) }))))
	if f := got["/recipients"]; !strings.Contains(f.Detail, "has 101 inboxes") {
		t.Errorf("one too many: %v", got)
	}
	// Many recipients behind few shared inboxes count as few targets.
	crowd := inboxes(1000, 0)
	for i := range crowd {
		crowd[i].SharedInbox = fmt.Sprintf("https://social-%d.example/inbox", i%100)
	}
	res, err := w.enqueue(request(func(r *enqueue.Request) { r.Recipients = crowd }))
	if err != nil || res.Recipients != 1000 {
		t.Errorf("collapsed: %+v, %v", res, err)
	}
}

func TestFiftyThousandInboxesAreAccepted(t *testing.T) {
	long.NotUnderRace(t)
	w := newWorld(t, faults.NewPlan())
	res, err := w.enqueue(request(key("k"), func(r *enqueue.Request) { r.Recipients = inboxes(50_000, 0) }))
	if err != nil || res.Recipients != 50_000 {
		t.Fatalf("the answer is %+v, error %v; want 50,000 recipients", res, err)
	}
	if sends := strings.Count(strings.Join(w.calls(0), " "), "Send"); sends != 1 {
		t.Errorf("%d sends", sends)
	}
	a := w.one()
	if len(a.Raw.Body) > 1000 || len(a.Message.FanOut.Targets) != 50_000 {
		t.Errorf("%d bytes on the queue for %d targets", len(a.Raw.Body), len(a.Message.FanOut.Targets))
	}
	faultsOf(t, second(w.enqueue(request(func(r *enqueue.Request) { r.Recipients = inboxes(50_001, 0) }))))
}

func TestAnOutageOfTheKeyStoreIsOursAndNotTheCallers(t *testing.T) {
	outage := errors.New("outage")
	w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Keys, s.dedup.Fallback = broken{outage}, dedup.Closed })
	_, err := w.enqueue(request())
	var send *enqueue.SendError
	if !errors.As(err, &send) || send.MaybeSent || !errors.Is(err, outage) {
		t.Errorf("got %v", err)
	}
	// The request's own faults are reported even during the outage.
	faultsOf(t, second(w.enqueue(request(body("[]")))))
}

type broken struct{ err error }

func (b broken) Known(context.Context, string) (bool, error) { return false, b.err }

func TestDuplicatesAndSharedInboxesBecomeOneTarget(t *testing.T) {
	type want struct {
		inbox  string
		stands int
		shared bool
	}
	r := func(inbox, shared string) enqueue.Recipient {
		return enqueue.Recipient{Inbox: inbox, SharedInbox: shared}
	}
	for name, c := range map[string]struct {
		recipients []enqueue.Recipient
		every      bool
		want       []want
		distinct   int
	}{
		"the same twice":     {[]enqueue.Recipient{r("https://a/i", ""), r("https://a/i", "")}, false, []want{{"https://a/i", 1, false}}, 1},
		"other spellings":    {[]enqueue.Recipient{r("https://A.example/i", ""), r("HTTPS://a.EXAMPLE:443/i", "")}, false, []want{{"https://a.example/i", 1, false}}, 1},
		"empty path":         {[]enqueue.Recipient{r("https://a", ""), r("https://a/", "")}, false, []want{{"https://a/", 1, false}}, 1},
		"paths have a case":  {[]enqueue.Recipient{r("https://a/i", ""), r("https://a/I", "")}, false, []want{{"https://a/i", 1, false}, {"https://a/I", 1, false}}, 2},
		"schemes differ":     {[]enqueue.Recipient{r("https://a/i", ""), r("http://a/i", "")}, false, []want{{"https://a/i", 1, false}, {"http://a/i", 1, false}}, 2},
		"queries differ":     {[]enqueue.Recipient{r("https://a/i?x", ""), r("https://a/i?y", "")}, false, []want{{"https://a/i?x", 1, false}, {"https://a/i?y", 1, false}}, 2},
		"encoding differs":   {[]enqueue.Recipient{r("https://a/i%2Fj", ""), r("https://a/i/j", "")}, false, []want{{"https://a/i%2Fj", 1, false}, {"https://a/i/j", 1, false}}, 2},
		"shared":             {[]enqueue.Recipient{r("https://a/1", "https://a/s"), r("https://b/1", ""), r("https://a/2", "https://a/s")}, false, []want{{"https://a/s", 2, true}, {"https://b/1", 1, false}}, 2 + 1},
		"shared by one":      {[]enqueue.Recipient{r("https://a/1", "https://a/s")}, false, []want{{"https://a/s", 1, true}}, 1},
		"shared and twice":   {[]enqueue.Recipient{r("https://a/1", "https://a/s"), r("https://a/1", "https://a/s")}, false, []want{{"https://a/s", 1, true}}, 1},
		"listed itself, too": {[]enqueue.Recipient{r("https://a/s", ""), r("https://a/1", "https://a/s")}, false, []want{{"https://a/s", 2, true}}, 2},
		"every inbox":        {[]enqueue.Recipient{r("https://a/1", "https://a/s"), r("https://a/2", "https://a/s")}, true, []want{{"https://a/1", 1, false}, {"https://a/2", 1, false}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan())
			res, err := w.enqueue(request(func(r *enqueue.Request) { r.Recipients, r.EveryInbox = c.recipients, c.every }))
			if err != nil || res.Recipients != c.distinct {
				t.Fatalf("%+v, %v, want %d recipients", res, err, c.distinct)
			}
			var got []want
			stands := 0
			for _, target := range w.one().Message.Deliver.Targets {
				got = append(got, want{target.Inbox, target.Stands, target.Shared})
				stands += target.Stands
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("targets %v, want %v", got, c.want)
			}
			if stands != res.Recipients {
				t.Errorf("targets stand for %d of %d recipients", stands, res.Recipients)
			}
		})
	}
}

func TestEveryRecipientIsStoodForOnce(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	property.Check(t, func(rt *rapid.T) {
		var rs []enqueue.Recipient
		distinct := map[string]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "recipients") {
			host := rapid.IntRange(0, 3).Draw(rt, "host")
			r := enqueue.Recipient{Inbox: fmt.Sprintf("https://h%d.example/%d", host, rapid.IntRange(0, 5).Draw(rt, "actor"))}
			if rapid.Bool().Draw(rt, "shared") {
				r.SharedInbox = fmt.Sprintf("https://h%d.example/inbox", host)
			}
			distinct[r.Inbox] = true
			rs = append(rs, r)
		}
		res, err := w.enqueue(request(func(r *enqueue.Request) { r.Recipients = rs }))
		if err != nil || res.Recipients != len(distinct) {
			rt.Fatalf("%+v, %v, want %d recipients", res, err, len(distinct))
		}
		stands, seen := 0, map[string]bool{}
		for _, target := range w.one().Message.Deliver.Targets {
			if seen[target.Inbox] {
				rt.Fatalf("%s is a target twice", target.Inbox)
			}
			seen[target.Inbox] = true
			stands += target.Stands
		}
		if stands != len(distinct) {
			rt.Fatalf("targets stand for %d of %d recipients", stands, len(distinct))
		}
	})
}

// TestAnInboxHasOneSpelling: five spellings of an inbox lead to one POST.
func TestAnInboxHasOneSpelling(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	res, err := w.enqueue(request(inbox("https://münchen.example/inbox", "https://xn--mnchen-3ya.example/inbox", "https://MÜNCHEN.example:0443/inbox",
		"https://ｍünchen.example/inbox", "https://mün\u00adchen。example./users/../inbox")))
	if err != nil || res.Recipients != 1 {
		t.Errorf("%d recipients, %v; want 1", res.Recipients, err)
	}
	want := []activity.Target{{Inbox: "https://xn--mnchen-3ya.example/inbox", Written: "https://münchen.example/inbox", Stands: 1}}
	if got := w.one().Message.Deliver.Targets; !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

// TestAnInboxWithBidirectionalControlsIsShownInItsCanonicalFormOnly: strangers write inboxes.
func TestAnInboxWithBidirectionalControlsIsShownInItsCanonicalFormOnly(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(inbox("https://a.example/\u202exobni")), enqueue.Queued)
	want := []activity.Target{{Inbox: "https://a.example/%E2%80%AExobni", Stands: 1}}
	if got := w.one().Message.Deliver.Targets; !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

func TestPathBytesStayAsTheCallerWroteThem(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(inbox("https://A.example/a%2Fb/ü?x=%2f")), enqueue.Queued)
	if got, want := w.one().Message.Deliver.Targets[0].Inbox, "https://a.example/a%2Fb/%C3%BC?x=%2f"; got != want {
		t.Errorf("inbox %s, want %s", got, want)
	}
}

func TestASipherServerHasOneSpelling(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(sipher(func(r *enqueue.Request) { r.ServerURL = "https://B.example:0443/" }), enqueue.Queued)
	if got := w.one().Message.Activity.ServerURL; got != "https://b.example" {
		t.Errorf("server %s", got)
	}
}

// ofActor sets a body of an actor, and permits no key of another.
func ofActor(id string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.Body = ptr(`{"type":"Create","actor":"` + id + `"}`) }
}

func TestAKeyBelongsToTheActorWhoseDocumentHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		actor, key string
		allow      bool
	}{
		"a fragment":            {"https://social.example/users/frida", keyID, false},
		"another spelling":      {"HTTPS://Social.example:443/users/frida", keyID, false},
		"a document below":      {"https://social.example/users/frida", "https://social.example/users/frida/main-key", false},
		"a query":               {"https://social.example/users/frida", "https://social.example/users/frida?operation=getkey", false},
		"an actor in a query":   {"https://social.example/?author=1", "https://social.example/?author=1#main-key", false},
		"an actor of fragments": {"https://social.example/card#me", "https://social.example/card#key", false},
		"the host's own actor":  {"https://social.example/", "https://social.example/#main-key", false},
		"no URL":                {"did:example:123", "did:example:123#key", false},
		"forwarded":             {"https://other.example/users/gus", keyID, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, faults.NewPlan(), func(s *settings) { s.enqueue.Keys = keys{c.key: true} })
			r := request(ofActor(c.actor))
			r.KeyID, r.AllowKeyOfOther = c.key, c.allow
			if _, err := w.enqueue(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEmptyListsOfBlindRecipientsRevealNothing(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	if _, err := w.enqueue(request(body(`{"actor":"a","bto":[ ],"bcc":null,"object":{"bcc":[],"bto":"","to":"b"}}`))); err != nil {
		t.Error(err)
	}
}

// written are headers as people write them.
func written(lines ...string) (hs []activity.Header) {
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		hs = append(hs, activity.Header{Name: name, Value: value, Sign: name == "Collection-Synchronization"})
	}
	return hs
}

func headers(lines ...string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.Headers = written(lines...) }
}

func ofRecipient(i int, lines ...string) func(*enqueue.Request) {
	return func(r *enqueue.Request) { r.Recipients[i].Headers = written(lines...) }
}

func sharing(shared string) func(*enqueue.Request) {
	return func(r *enqueue.Request) {
		for i := range r.Recipients {
			r.Recipients[i].SharedInbox = shared
		}
	}
}

func TestHeadersTravelWithTheActivityAndItsRecipients(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(headers("x-mine:  a b ", "Prefer: return=minimal"), ofRecipient(1, "Collection-Synchronization: url=\"x\"")), enqueue.Queued)
	got := w.arrived()
	if len(got) != 1 {
		t.Fatalf("%d arrived", len(got))
	}
	m := got[0].Message
	all, err := m.Activity.Headers.List()
	if want := []activity.Header{{Name: "X-Mine", Value: "a b"}, {Name: "Prefer", Value: "return=minimal"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("of the activity %+v, %v", all, err)
	}
	own, err := m.Deliver.Targets[1].Headers.List()
	if want := []activity.Header{{Name: "Collection-Synchronization", Value: `url="x"`, Sign: true}}; err != nil || !slices.Equal(own, want) {
		t.Errorf("of the recipient %+v, %v", own, err)
	}
	if m.Deliver.Targets[0].Headers != "" {
		t.Errorf("of the other recipient %q", m.Deliver.Targets[0].Headers)
	}
}

func TestHeadersDistinguishRequests(t *testing.T) {
	w := newWorld(t, faults.NewPlan())
	w.must(request(key("k"), headers("X-A: 1")), enqueue.Queued)
	w.must(request(key("k"), headers("X-A: 1")), enqueue.Duplicate)
	for _, other := range []enqueue.Request{request(key("k")), request(key("k"), headers("X-A: 2")), request(key("k"), headers("X-A: 1"), ofRecipient(0, "X-B: 1"))} {
		var mismatch *dedup.MismatchError
		if _, err := w.enqueue(other); !errors.As(err, &mismatch) {
			t.Errorf("%+v: %v", other, err)
		}
	}
}
