package sipher_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fedpost/internal/activity"
	"fedpost/internal/activity/outcome"
	"fedpost/internal/protocol/outbound"
	"fedpost/internal/protocol/retry"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/protocol/sipher/crypto"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
	"fedpost/internal/testkit/sipherpeer"
)

// lies are the values, as JSON or as no JSON at all, that a hostile server puts
// in the place of any field.
var lies = map[string]string{
	"null": "null", "true": "true", "zero": "0", "negative": "-1", "huge number": "1e999", "long number": strings.Repeat("9", 5000),
	"empty": `""`, "space": `" "`, "word": `"acknowledged"`, "list": "[]", "object": "{}", "nested": strings.Repeat("[", 12000) + strings.Repeat("]", 12000),
	"NUL": `"\u0000"`, "surrogate": `"\ud800"`, "escape": `"\u001b[2J"`, "no UTF-8": "\"\xff\xfe\"", "not JSON": "}{", "large": `"` + strings.Repeat("A", 40<<10) + `"`,
	"line break in base64": `"QUFB\nQUFB"`, "short key": `"QQ=="`, "zero key": `"` + crypto.Encode(make([]byte, 32)) + `"`,
	"12 bytes": `"` + crypto.Encode(make([]byte, 12)) + `"`, "16 bytes": `"` + crypto.Encode(make([]byte, 16)) + `"`, "64 bytes": `"` + crypto.Encode(make([]byte, 64)) + `"`,
}

// fields lists the paths of all members of a JSON document.
func fields(doc string) [][]string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(doc), &m) != nil {
		return nil
	}
	var all [][]string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, []string{name})
		for _, inner := range fields(string(m[name])) {
			all = append(all, append([]string{name}, inner...))
		}
	}
	return all
}

// lie puts raw in the place of a member, or drops the member if raw is empty.
func lie(doc string, path []string, raw string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(doc), &m) != nil {
		return doc
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := string(m[name])
		if name == path[0] {
			if len(path) > 1 {
				v = lie(v, path[1:], raw)
			} else if v = raw; raw == "" {
				continue
			}
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, v))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// sane checks what holds whatever a server answers.
func sane(t testing.TB, b *bed, o outcome.Outcome) {
	t.Helper()
	if o.Class != outcome.Delivered && o.Class != outcome.Retry && o.Class != outcome.Refused {
		t.Errorf("class %q", o.Class)
	}
	for _, s := range []string{o.Err, o.Response, o.Note} {
		if !clean(s, outcome.MaxText) {
			t.Errorf("%d bytes: %.80q", len(s), s)
		}
	}
	if log := b.log.String(); len(log) > 16<<10 {
		t.Errorf("%d bytes of log", len(log))
	}
}

// quiet makes a bed whose peers listen nowhere.
func quiet(t testing.TB) *bed {
	b := newBedOf(t, threePeers{sipherpeer.New(t, ourURL), sipherpeer.New(t, urlB), sipherpeer.New(t, urlP)})
	b.p.Through(sipherpeer.NewNetwork(b.b, b.p)) // reaches B when we do not
	return b
}

var jobs = map[string]func() activity.Activity{"follow": followJob, "post": postJob}

// A target that lies in any field of its acknowledgement ends a delivery, as it
// could by an honest refusal; but never as delivered, unless the acknowledgement
// proves it by the protocol's own rules.
func TestHostileEveryFieldOfAnAcknowledgement(t *testing.T) {
	tried := 0
	for kind, job := range jobs {
		for _, form := range []sipherpeer.Form{sipherpeer.Wrapped, sipherpeer.Inline} {
			honest := honestAnswer(t, job(), form)
			for _, path := range fields(honest) {
				for what, raw := range withNothing(lies) {
					b := quiet(t)
					b.acquainted(b.b)
					b.b.Behave(sipherpeer.Behavior{Form: form})
					b.net.Serve(urlB, sipherpeer.Liar{Peer: b.b, Lie: func(_ *http.Request, status int, body string) (int, string) {
						return status, lie(body, path, raw)
					}})
					o := b.attempt(job(), 1)
					sane(t, b, o)
					name := strings.Join(path, ".")
					if got, harmless := o.Class == outcome.Delivered, harmlessLie(kind, form, name, what); got != harmless {
						t.Errorf("%s %s: %s is %s: %+v", form, kind, name, what, o)
					}
					if o.Class != outcome.Delivered {
						untouched(t, b)
						if o.Class == outcome.Retry {
							t.Errorf("%s %s: %s is %s: a 2xx is tried again: %s", form, kind, name, what, o.Err)
						}
					}
					tried++
				}
			}
		}
	}
	t.Logf("%d hostile answers", tried)
}

// harmlessLie reports whether the protocol ignores a lie: in the outer method of a wrapped
// acknowledgement, and in all of a post's that is not inspected.
func harmlessLie(kind string, form sipherpeer.Form, field, what string) bool {
	switch {
	case what == "word" && strings.HasSuffix(field, "status"):
		return true // the honest value
	case what == "nested", what == "not JSON":
		return false
	case form == sipherpeer.Wrapped && field == "method":
		return true
	case kind == "follow":
		return false
	case form == sipherpeer.Wrapped:
		return field != "payload" && field != "payload.method"
	case field == "method", field == "status":
		return false
	case field == "data":
		return what == "object"
	}
	return true
}

// withNothing adds that the member is left out. By default it has a third of the lies.
func withNothing(m map[string]string) map[string]string {
	all := map[string]string{"left out": "", "word": m["word"]}
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i%long.Pick(3, 1) == 0 {
			all[name] = m[name]
		}
	}
	return all
}

// honestAnswer is the peer's own answer to a delivery.
func honestAnswer(t *testing.T, a activity.Activity, form sipherpeer.Form) (answer string) {
	t.Helper()
	b := quiet(t)
	b.acquainted(b.b)
	b.b.Behave(sipherpeer.Behavior{Form: form})
	b.net.Serve(urlB, sipherpeer.Liar{Peer: b.b, Lie: func(_ *http.Request, status int, body string) (int, string) {
		answer = body
		return status, body
	}})
	if o := b.attempt(a, 1); o.Class != outcome.Delivered {
		t.Fatalf("the outcome is %+v, want delivered", o)
	}
	return answer
}

// A proxy that lies in any field of what the target answered ends nothing, but
// where the lie does not touch what the target signed.
func TestHostileEveryFieldOfAProxysAnswer(t *testing.T) {
	tried := 0
	for kind, job := range jobs {
		for _, path := range [][]string{
			{"payload"},
			{"payload", "method"},
			{"payload", "status"},
			{"payload", "data"},
			{"payload", "signature"},
			{"payload", "data", "iv"},
			{"payload", "data", "ciphertext"},
			{"payload", "data", "authTag"},
			{"payload", "data", "ephemeralPublicKey"},
		} {
			for what, raw := range withNothing(lies) {
				b := quiet(t)
				b.blockedFromUs2(notFound)
				b.acquainted(b.p)
				b.net.Serve(urlP, sipherpeer.Liar{Peer: b.p, Lie: func(_ *http.Request, status int, body string) (int, string) {
					return status, lie(body, path, raw)
				}})
				o := b.attempt(job(), 1)
				sane(t, b, o)
				harmless := what == "word" && path[len(path)-1] == "status"
				if (o.Class == outcome.Delivered) != harmless || o.Class != outcome.Delivered && !strings.Contains(o.Err, "no such host") {
					t.Errorf("%s: %s is %s: %+v", kind, path, what, o)
				}
				if !harmless {
					untouched(t, b)
				}
				if n := len(b.net.Asked()); n != 2 {
					t.Errorf("%d requests", n)
				}
				tried++
			}
		}
	}
	t.Logf("%d hostile answers", tried)
}

// blockedFromUs2 is blockedFromUs without sockets.
func (b *bed) blockedFromUs2(err error) {
	b.t.Helper()
	b.acquainted(b.b)
	b.net.Fail(urlB, err)
}

// A server is registered only with two whole keys, whatever else it shows.
func TestHostileEveryFieldOfADiscoveryDocument(t *testing.T) {
	tried := 0
	for _, path := range [][]string{{"url"}, {"publicKey"}, {"encryptionPublicKey"}, {"peers"}} {
		for what, raw := range withNothing(lies) {
			for _, status := range []int{200, 201, 204, 301, 404, 500} {
				b := quiet(t)
				b.net.Serve(urlB, sipherpeer.Liar{Peer: b.b, Lie: func(r *http.Request, honest int, body string) (int, string) {
					if r.Method == http.MethodGet {
						return status, lie(body, path, raw)
					}
					return honest, body
				}})
				o := b.attempt(postJob(), 1)
				sane(t, b, o)
				b.ask("POST", b.registrationOf(b.b))
				s, err := b.store.Server(t.Context(), urlB)
				if err != nil {
					if o.Class != outcome.Retry || o.Try != outcome.Unsent {
						t.Errorf("%s is %s, %d: %+v", path, what, status, o)
					}
				} else if _, err := crypto.DecodeSize(s.PublicKey, 32); err != nil || status/100 != 2 {
					t.Errorf("%s is %s, %d: registered: %+v", path, what, status, s)
				} else if _, err := crypto.DecodeSize(s.EncryptionKey, 32); err != nil {
					t.Errorf("%s is %s: registered: %+v", path, what, s)
				}
				if n := len(b.net.Asked()); n > 5 {
					t.Errorf("%d requests: %v", n, b.net.Asked())
				}
				tried++
			}
		}
	}
	t.Logf("%d hostile answers", tried)
}

// Any status with any of a few bodies: 2xx is final or delivered, the rest is
// tried again; only a 409 that names the thing ends a later try.
func TestHostileEveryStatus(t *testing.T) {
	for _, status := range []int{200, 201, 202, 203, 204, 205, 206, 207, 226, 299, 300, 301, 302, 304, 308, 400, 401, 403, 404, 409, 410, 418, 429, 451, 499, 500, 501, 502, 503, 504, 599} {
		for _, body := range []string{"", "null", conflict, `{"code":["FOLLOW_ALREADY_EXISTS"]}`} {
			for _, n := range []int{1, 2} {
				b := quiet(t)
				b.acquainted(b.b)
				b.net.Serve(urlB, sipherpeer.Liar{Peer: b.b, Lie: func(*http.Request, int, string) (int, string) { return status, body }})
				o := b.attempt(followJob(), n)
				sane(t, b, o)
				class := outcome.Retry
				switch {
				case status/100 == 2:
					class = outcome.Refused
				case status == 409 && n > 1 && body == conflict:
					class = outcome.Delivered
				}
				if o.Class != class || o.Status != status {
					t.Errorf("%d %s, try %d: %+v", status, body, n, o)
				}
				untouched(t, b)
			}
		}
	}
}

// Several lies at once, in the target's answer or the proxy's.
func TestHostileManyFieldsAtOnce(t *testing.T) {
	names := slices.Sorted(maps.Keys(lies))
	property.Check(t, func(rt *rapid.T) {
		b := quiet(t)
		b.acquainted(b.b)
		b.acquainted(b.p)
		n := rapid.IntRange(1, 4).Draw(rt, "lies")
		var honest, told string
		liar := func(of *sipherpeer.Peer) sipherpeer.Liar {
			return sipherpeer.Liar{Peer: of, Lie: func(_ *http.Request, status int, body string) (int, string) {
				honest = body
				for range n {
					all := fields(body)
					if len(all) == 0 {
						break
					}
					path := rapid.SampledFrom(all).Draw(rt, "field")
					body = lie(body, path, lies[rapid.SampledFrom(names).Draw(rt, "lie")])
				}
				told = body
				return rapid.SampledFrom([]int{status, 200, 201, 206}).Draw(rt, "status"), body
			}}
		}
		if rapid.Bool().Draw(rt, "by proxy") {
			b.net.Fail(urlB, notFound)
			b.net.Serve(urlP, liar(b.p))
		} else {
			b.net.Serve(urlB, liar(b.b))
		}
		o := b.attempt(followJob(), rapid.IntRange(1, retry.Sipher().Tries).Draw(rt, "try"))
		sane(t, b, o)
		if o.Class == outcome.Delivered && payloadOf(told) != payloadOf(honest) {
			rt.Errorf("delivered by %s: %+v", told, o)
		}
		for _, f := range b.follows() {
			if f.Accepted && o.Class != outcome.Delivered {
				rt.Errorf("accepted without a delivery: %+v", o)
			}
		}
	})
}

// payloadOf is the part of an answer that the protocol looks at, in one spelling.
func payloadOf(doc string) string {
	var v struct{ Payload any }
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		return err.Error()
	}
	canonical, err := json.Marshal(v.Payload)
	if err != nil {
		return err.Error()
	}
	return string(canonical)
}

// A connection that is closed within the answer, after any number of its bytes,
// is no answer: the job is tried again. Only the whole answer delivers.
func TestHostileCloseAtEveryByte(t *testing.T) {
	p, peer, store := overSockets(t, outbound.Config{AllowPrivate: true})
	var cut atomic.Int64
	var whole atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/discover" {
			peer.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		peer.ServeHTTP(rec, r)
		raw := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", rec.Body.Len(), rec.Body)
		whole.Store(int64(len(raw)))
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte(raw[:min(int64(len(raw)), cut.Load())]))
		_ = conn.Close()
	}))
	t.Cleanup(server.Close)
	peer.URL = server.URL
	for n := int64(0); whole.Load() == 0 || n <= whole.Load(); n++ {
		cut.Store(n)
		a := job("deliver-follow", strings.NewReplacer(urlB, peer.URL, "alice", fmt.Sprintf("alice%04d", n)).Replace(followPayload))
		a.ServerURL = peer.URL
		if err := p.Record(t.Context(), a, activity.Target{}); err != nil {
			t.Fatal(err)
		}
		o := p.Attempt(t.Context(), a, activity.Target{Inbox: peer.URL + sipherpeer.FollowsPath}, 1)
		class := outcome.Retry
		if n == whole.Load() {
			class = outcome.Delivered
		}
		if o.Class != class {
			t.Fatalf("%d of %d bytes: %+v", n, whole.Load(), o)
		}
	}
	got := 0
	for cursor := ""; ; {
		fs, next, err := store.Follows(t.Context(), cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fs {
			if f.Accepted {
				got++
			}
		}
		if cursor = next; next == "" {
			break
		}
	}
	if got != 1 {
		t.Errorf("%d follows accepted", got)
	}
	t.Logf("%d answers cut", whole.Load())
}

// A server that sends its answer a byte a second, to any request, costs no more
// than the attempt's time.
func TestHostileSlowBodies(t *testing.T) {
	inFakeTime(t, func(t *testing.T, b *bed) {
		card := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(registration(urlB, b.b.PublicKey(), b.b.EncryptionKey())))
		})
		b.net.Drip(urlB, card, time.Second)
		timed := func(what string, most time.Duration, f func()) {
			t.Helper()
			began := time.Now()
			f()
			if took := time.Since(began); took > most {
				t.Errorf("%s took %s, at most %s", what, took, most)
			}
		}
		timed("discovery", peers.DiscoveryTimeout, func() {
			want{class: outcome.Retry, unattempted: true, tried: true, says: "in time"}.check(t, b.attempt(postJob(), 1))
		})
		timed("a call-back", peers.DiscoveryTimeout, func() {
			if w := b.ask("POST", b.registrationOf(b.b)); w.Code != 502 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
		b.acquainted(b.b)
		timed("a delivery", sipher.Timeout, func() {
			o := b.attempt(postJob(), 1)
			if o.Class != outcome.Retry {
				t.Errorf("the outcome is %+v, want a retry", o)
			}
		})
	})
}

// Of an answer that never ends a bounded part is read.
func TestHostileEndlessBodies(t *testing.T) {
	b := quiet(t)
	read := b.net.Endless(urlB)
	requests := int64(0)
	for _, known := range []bool{false, true} {
		if known {
			b.acquainted(b.b)
		}
		for n := 1; n <= retry.Sipher().Tries; n++ {
			o := b.attempt(followJob(), n)
			sane(t, b, o)
			if o.Class == outcome.Delivered || known && o.Class != outcome.Refused {
				t.Errorf("the outcome is %+v, want refused if B knows us, and never delivered", o)
			}
			b.advance(peers.FailureAge)
			requests++
		}
	}
	if most := requests * (outbound.MaxBody + 4096); read.Load() > most || read.Load() == 0 {
		t.Errorf("%d bytes read of %d answers, at most %d", read.Load(), requests, most)
	}
}
