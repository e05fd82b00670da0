package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"fedpost/internal/api"
	"fedpost/internal/engine/queue"
)

// refused checks that res is a problem of a status that says something, and
// returns its faults by pointer.
func refused(t *testing.T, res response, status int, says string) map[string]string {
	t.Helper()
	if res.Status != status {
		t.Fatalf("answered %d %s, want %d", res.Status, res.Body, status)
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type is %q", got)
	}
	p := res.json(t)
	if p["status"] != float64(status) || p["title"] == "" || p["type"] == "" || p["requestId"] == "" {
		t.Errorf("problem lacks something: %s", res.Body)
	}
	if !strings.Contains(res.Body, says) {
		t.Errorf("answered %s, want it to say %q", res.Body, says)
	}
	faults := map[string]string{}
	list, _ := p["errors"].([]any)
	for _, e := range list {
		f := e.(map[string]any)
		faults[f["pointer"].(string)] = f["detail"].(string)
	}
	return faults
}

func TestMalformedInputIsRefusedWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"cut":                {`{"activity":`, "line 1, column 13"},
		"second line":        {"{\n  \"activity\": nul\n}", "line 2, column 18"},
		"characters count":   {"{\"größe🐘\": x}", "line 1, column 12"},
		"trailing":           {`{} {}`, "line 1, column 4"},
		"trailing comma":     {`{"a":1,}`, "line 1, column 8"},
		"single quotes":      {`{'a':1}`, "line 1, column 2"},
		"control character":  {"{\"a\":\"\n\"}", "line 1, column 7"},
		"not UTF-8":          {"{\"a\":\"\xff\"}", "line 1, column 7"},
		"byte order mark":    {"\ufeff{}", "line 1, column 1"},
		"empty":              {" ", "is empty"},
		"list":               {`[]`, "not a JSON object"},
		"string":             {`"x"`, "not a JSON object"},
		"null":               {`null`, "not a JSON object"},
		"nested too deep":    {`{"activity":` + strings.Repeat("[", 20_000), "JSON"},
		"hidden by a string": {`{"a":"}{"`, "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, route := range []string{"/v1/activities", "/v1/activities/batch", "/v1/keys"} {
				refused(t, newWorld(t).do("POST", route, c.body), http.StatusBadRequest, c.says)
			}
		})
	}
}

func TestAnotherMediaTypeIsRefused(t *testing.T) {
	w := newWorld(t).withKey()
	for given, ok := range map[string]bool{
		"application/json":                  true,
		"Application/JSON; charset=UTF-8":   true,
		`application/json; charset="utf-8"`: true,
		"":                                  false,
		"text/plain":                        false,
		"application/activity+json":         false,
		"application/ld+json":               false,
		"application/x-www-form-urlencoded": false,
		"application/json; charset=latin1":  false,
		"application/json; charset":         false,
		"application/jsonx":                 false,
	} {
		res := w.do("POST", "/v1/activities", submission(), "Content-Type", "", "Content-Type", given)
		if ok && res.Status != http.StatusAccepted {
			t.Errorf("%q: answered %d %s, want 202", given, res.Status, res.Body)
		}
		if !ok {
			refused(t, res, http.StatusUnsupportedMediaType, "")
		}
	}
	res := w.do("POST", "/v1/activities", submission(), "Content-Encoding", "gzip")
	refused(t, res, http.StatusUnsupportedMediaType, "Content-Encoding")
}

func TestBadFieldsAreAllNamedAndNothingIsStored(t *testing.T) {
	with := func(field, value string) string { return submission(fmt.Sprintf("%q:%s", field, value)) }
	for name, c := range map[string]struct {
		body   string
		faults map[string]string // what each says
	}{
		"unknown field":           {with("recipents", `[]`), map[string]string{"#/recipents": "not a field"}},
		"unknown, odd name":       {with("a/b~c", `1`), map[string]string{"#/a~1b~0c": "not a field"}},
		"case matters":            {with("Delay", `1`), map[string]string{"#/Delay": "not a field"}},
		"headers no list":         {with("headers", `{"X-A":"1"}`), map[string]string{"#/headers": "not a list"}},
		"header is a string":      {with("headers", `["X-A: 1"]`), map[string]string{"#/headers/0": "not an object"}},
		"header, unknown field":   {with("headers", `[{"name":"X-A","value":"1","signed":true}]`), map[string]string{"#/headers/0/signed": "not a field"}},
		"header, sign is text":    {with("headers", `[{"name":"X-A","value":"1","sign":"yes"}]`), map[string]string{"#/headers/0/sign": "neither true nor false"}},
		"header, no value":        {with("headers", `[{"name":"X-A"},{"name":"Host","value":7}]`), map[string]string{"#/headers/0/value": "missing", "#/headers/1/value": "not a string", "#/headers/1/name": "not allowed"}},
		"many headers":            {with("headers", "["+strings.Repeat(`{},`, 20)+"{}]"), map[string]string{"#/headers": "more than 20"}},
		"header of a recipient":   {strings.Replace(submission(), `"https://b.example/inbox"`, `{"inbox":"https://b.example/inbox","headers":[{"name":"Cookie","value":"a"}]}`, 1), map[string]string{"#/recipients/1/headers/0/name": "not allowed"}},
		"twice":                   {submission(`"delay":1`, `"delay":2`), map[string]string{"#/delay": "twice"}},
		"two activities":          {with("activity", `{}`), map[string]string{"#/activity": "twice"}},
		"nothing":                 {`{}`, map[string]string{"#/activity": "missing", "#/keyId": "missing", "#/recipients": "missing or empty"}},
		"nulls":                   {`{"activity":null,"keyId":null,"recipients":null,"delay":null}`, map[string]string{"#/activity": "is null", "#/keyId": "is null", "#/recipients": "is null", "#/delay": "is null"}},
		"activity is a string":    {`{"activity":"{}","keyId":"` + keyID + `","recipients":["https://a.example/i"]}`, map[string]string{"#/activity": "not a JSON object"}},
		"key is a number":         {strings.Replace(submission(), `"`+keyID+`"`, "7", 1), map[string]string{"#/keyId": "not a string"}},
		"unknown key":             {strings.Replace(submission(), keyID, "https://a.example/nobody", 1), map[string]string{"#/keyId": "names no key"}},
		"recipients no list":      {strings.Replace(submission(), `["https://a.example/inbox","https://b.example/inbox"]`, `"https://a.example/inbox"`, 1), map[string]string{"#/recipients": "not a list"}},
		"recipient is a number":   {strings.Replace(submission(), `"https://b.example/inbox"`, `7`, 1), map[string]string{"#/recipients/1": "neither an inbox URL"}},
		"recipient lacks inbox":   {strings.Replace(submission(), `"https://b.example/inbox"`, `{"sharedInbox":"https://b.example/s"}`, 1), map[string]string{"#/recipients/1/inbox": "empty"}},
		"recipient's field":       {strings.Replace(submission(), `"https://b.example/inbox"`, `{"inbox":"https://b.example/i","shared":1}`, 1), map[string]string{"#/recipients/1/shared": "not a field"}},
		"bad recipients":          {strings.Replace(submission(), `"https://b.example/inbox"`, `"b.example","https://u:p@b.example/i"`, 1), map[string]string{"#/recipients/1/inbox": "absolute", "#/recipients/2/inbox": "user name"}},
		"delay no duration":       {with("delay", `"soon"`), map[string]string{"#/delay": "not a duration"}},
		"delay of a month":        {with("delay", `"P1M"`), map[string]string{"#/delay": "differ in length"}},
		"negative delay":          {with("delay", `-1`), map[string]string{"#/delay": "negative"}},
		"negative ISO delay":      {with("delay", `"-PT1S"`), map[string]string{"#/delay": "negative"}},
		"too long a delay":        {with("delay", `"P31D"`), map[string]string{"#/delay": "longer than"}},
		"endless delay":           {with("delay", `1e300`), map[string]string{"#/delay": "longer than"}},
		"delay of nothing":        {with("delay", `"PT"`), map[string]string{"#/delay": "not a duration"}},
		"delay is true":           {with("delay", `true`), map[string]string{"#/delay": "not a duration"}},
		"delay is an object":      {with("delay", `{"s":1}`), map[string]string{"#/delay": "not a duration"}},
		"metadata in a list":      {with("metadata", `[{}]`), map[string]string{"#/metadata": "not an object"}},
		"metadata over 1 KiB":     {with("metadata", `{"a":"`+strings.Repeat("x", 1017)+`"}`), map[string]string{"#/metadata": "the limit is 1024"}},
		"neither request nor key": {with("deduplicateBy", `"body"`), map[string]string{"#/deduplicateBy": "one of"}},
		"expires at once":         {with("expiresIn", `0`), map[string]string{"#/expiresIn": "least"}},
		"priority":                {with("priority", `"urgent"`), map[string]string{"#/priority": "one of high"}},
		"empty priority":          {with("priority", `""`), map[string]string{"#/priority": "empty"}},
		"protocol":                {with("protocol", `"diaspora"`), map[string]string{"#/protocol": "one of"}},
		"notify":                  {with("notify", `1`), map[string]string{"#/notify": "neither true nor false"}},
		"prefer":                  {with("preferSharedInbox", `"yes"`), map[string]string{"#/preferSharedInbox": "neither true nor false"}},
		"coalesce":                {with("coalesce", `"all"`), map[string]string{"#/coalesce": "one of"}},
		"payload":                 {with("payload", `"x"`), map[string]string{"#/payload": "not a field"}},
		"empty key":               {with("deduplicationKey", `""`), map[string]string{"#/deduplicationKey": "empty"}},
		"key is an object":        {with("deduplicationKey", `{}`), map[string]string{"#/deduplicationKey": "not a string"}},
		"no window":               {submission(`"deduplicationKey":"k"`, `"deduplicationTtl":0`), map[string]string{"#/deduplicationTtl": "least"}},
		"half a character":        {with("orderingKey", `"\ud83d"`), map[string]string{"#/orderingKey": "surrogate"}},
		"several at once": {
			`{"activity":{},"keyId":7,"recipients":["x"],"delay":"soon","typo":1}`,
			map[string]string{"#/activity/actor": "missing", "#/keyId": "not a string", "#/recipients/0/inbox": "absolute", "#/delay": "not a duration", "#/typo": "not a field"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).withKey()
			got := refused(t, w.do("POST", "/v1/activities", c.body), http.StatusBadRequest, "nothing was stored")
			if len(got) != len(c.faults) {
				t.Errorf("faults %v, want %v", got, c.faults)
			}
			for pointer, says := range c.faults {
				if !strings.Contains(got[pointer], says) {
					t.Errorf("%s: %q, want it to say %q", pointer, got[pointer], says)
				}
			}
			if n := len(w.received(queue.Normal)); n > 0 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
}

func TestBadBatchesAreNamedWithTheirPlace(t *testing.T) {
	for name, c := range map[string]struct{ body, pointer, says string }{
		"missing":          {`{}`, "#/activities", "1 to 100"},
		"empty":            {`{"activities":[]}`, "#/activities", "1 to 100"},
		"too many":         {`{"activities":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]}`, "#/activities", "101"},
		"no list":          {`{"activities":{}}`, "#/activities", "not a list"},
		"no object":        {`{"activities":[` + submission() + `,7]}`, "#/activities/1", "not an object"},
		"a part's field":   {`{"activities":[` + submission() + `,` + submission(`"typo":1`) + `]}`, "#/activities/1/typo", "not a field"},
		"a part's value":   {`{"activities":[` + submission() + `,` + submission(`"delay":"x"`) + `]}`, "#/activities/1/delay", "not a duration"},
		"a part's key":     {`{"activities":[` + submission(`"deduplicationKey":"k"`) + `]}`, "#/activities/0/deduplicationKey", "one key for the whole"},
		"a part's inbox":   {`{"activities":[` + strings.Replace(submission(), "https://b", "ftp://b", 1) + `]}`, "#/activities/0/recipients/1/inbox", "http"},
		"its own field":    {`{"activities":[` + submission() + `],"keyId":"x"}`, "#/keyId", "not a field"},
		"its own key":      {`{"activities":[` + submission() + `],"deduplicationKey":""}`, "#/deduplicationKey", "empty"},
		"different delays": {`{"activities":[` + submission() + `,` + submission(`"delay":1`) + `]}`, "#/activities/1/delay", "differs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).withKey()
			got := refused(t, w.do("POST", "/v1/activities/batch", c.body), http.StatusBadRequest, "")
			if len(got) != 1 || !strings.Contains(got[c.pointer], c.says) {
				t.Errorf("faults %v, want one at %s that says %q", got, c.pointer, c.says)
			}
			if n := len(w.received(queue.Normal)); n > 0 {
				t.Errorf("%d messages were sent", n)
			}
		})
	}
}

func TestTooLargeIsSaidSo(t *testing.T) {
	w := newWorld(t).withKey()
	refused(t, w.do("POST", "/v1/activities", `{"x":"`+strings.Repeat("x", api.MaxRequest)+`"}`), http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes", api.MaxRequest))
	large := strings.Replace(submission(), "Grüße", strings.Repeat("x", 256<<10), 1)
	got := refused(t, w.do("POST", "/v1/activities", large), http.StatusRequestEntityTooLarge, "")
	if !strings.Contains(got["#/activity"], "262144") {
		t.Errorf("faults %v", got)
	}
	// Larger than a limit and wrong besides: the client has more to do than cut.
	refused(t, w.do("POST", "/v1/activities", strings.Replace(large, "https://b", "ftp://b", 1)), http.StatusBadRequest, "#/activity")
}

// Lambda takes 6 MB as an event, in which the body is a string: what would not fit
// there is refused everywhere.
func TestWhatIsTooLargeForLambdaIsRefused(t *testing.T) {
	w := newWorld(t).withKey()
	event := func(body string) int {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(body); err != nil {
			t.Fatal(err)
		}
		return b.Len() - len("\"\"\n")
	}
	// As many recipients as fit, with long names.
	body := func(n int) string {
		all := make([]string, n)
		for i := range all {
			host := fmt.Sprintf("https://%05d.%s.example", i, strings.Repeat("social", 8))
			all[i] = fmt.Sprintf(`{"inbox":"%s/users/somebody/inbox","sharedInbox":"%[1]s/inbox"}`, host)
		}
		return `{"activity":` + note + `,"keyId":"` + keyID + `","recipients":[` + strings.Join(all, ",") + `]}`
	}
	const limit = api.MaxRequest
	n := 50_000 * limit / event(body(50_000)) // about: all are of one length
	for event(body(n)) > limit {
		n--
	}
	t.Logf("%d recipients of %d bytes fit", n, event(body(n))/n)
	full := body(n) + strings.Repeat(" ", limit-event(body(n)))
	if got := event(full); got != limit || got+64<<10 > 6<<20 {
		t.Fatalf("the largest body has %d bytes as a string", got)
	}
	if res := w.do("POST", "/v1/activities", full); res.Status == http.StatusRequestEntityTooLarge {
		t.Errorf("a request that fits is too large: %s", res.Body)
	}
	refused(t, w.do("POST", "/v1/activities", full+" "), http.StatusRequestEntityTooLarge, "AWS Lambda")
	// 3.5 MB that are 7 as a string.
	refused(t, w.do("POST", "/v1/activities", `{"x":"`+strings.Repeat(`\"`, 7<<18)+`"}`), http.StatusRequestEntityTooLarge, "AWS Lambda")
}

func TestUnknownRoutesAndMethodsAreProblems(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/v1", 404, ""},
		{"GET", "/v2/activities", 404, ""},
		{"POST", "/v1/activities/", 404, ""},
		{"GET", "/v1/keys/x/", 404, ""},
		{"POST", "/v1/activities/x/cancel/", 404, ""},
		{"POST", "//v1/activities", 404, ""},
		{"POST", "/v1/./activities", 404, ""},
		{"POST", "/v1/keys/../activities", 404, ""},
		{"GET", "/v1/keys/https://a.example/key", 404, ""},
		{"PUT", "/v1/activities", 405, "POST"},
		{"POST", "/v1/keys/x", 405, "GET, HEAD, PUT"},
		{"POST", "/healthz", 405, "GET, HEAD"},
		{"PATCH", "/v1/activities/x/cancel", 405, "POST"},
		{"GET", "/v1/activities/batch", 405, "POST"},
		{"PATCH", "/v1/activities/batch", 405, "POST"},
	} {
		res := w.do(c.method, c.path, "")
		refused(t, res, c.status, "")
		if trailing := strings.HasPrefix(c.path, "/v1/") && strings.HasSuffix(c.path, "/"); trailing != strings.Contains(res.Body, "slash at the end") {
			t.Errorf("%s: the hint is wrong: %s", c.path, res.Body)
		}
		if got := res.Header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: Allow is %q, want %q", c.method, c.path, got, c.allow)
		}
	}
}
