package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fedpost/client"
)

// TestTheFeedIsFollowedThroughTrouble: the client waits as fedpost says, and skips nothing.
func TestTheFeedIsFollowedThroughTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const none = `{"events":[],"next":"AQ","more":false`
		const not = `{"title":"Not now"}`
		answers := []struct {
			status     int
			retryAfter string
			body       string
			took       time.Duration
		}{
			{200, "", none + `}`, 0}, // the first request does not wait
			{200, "5", none + `,"retryAfter":5}`, 0},
			{429, "7", not, 0},
			{503, "9", not, 0},
			{200, "", none + `}`, 0}, // at once, from a server that does not say how long
			{200, "", none + `}`, 20 * time.Second},
			{200, "3", `{"events":[{"id":"evt_1","type":"server.gone"},{"id":"evt_2","type":"server.gone"}],"next":"Ag","more":false,"retryAfter":3}`, 0},
			{200, "5", none + `,"retryAfter":5}`, 0},
		}
		var asked []time.Duration
		var queries []string
		c := to(t, func(r *http.Request) (int, string, string) {
			a := answers[len(asked)]
			if asked = append(asked, time.Since(begin)); len(asked) == len(answers) {
				cancel()
			}
			queries = append(queries, r.URL.RawQuery)
			time.Sleep(a.took)
			return a.status, a.retryAfter, a.body
		})
		var told []string
		var last error
		for e, err := range c.Events(ctx, "begin", "server.gone") {
			if last = err; err == nil {
				told = append(told, e.ID+" "+e.Cursor)
			}
		}
		// After a crash the events of a page come again, unless the last of them was handled.
		if want := []string{"evt_1 AQ", "evt_2 Ag"}; !slices.Equal(told, want) || !errors.Is(last, context.Canceled) {
			t.Errorf("told %q, want %q; ends with %v", told, want, last)
		}
		s := time.Second
		if want := []time.Duration{0, 0, 5 * s, 12 * s, 21 * s, 23 * s, 43 * s, 43 * s}; !slices.Equal(asked, want) {
			t.Errorf("asks at %v, not at %v", asked, want)
		}
		if queries[0] != "after=begin&type=server.gone" || queries[7] != "after=Ag&type=server.gone&wait=20" {
			t.Errorf("asks for %q", queries)
		}
	})
}

// TestTheFeedOutlivesAServerThatIsDown, however long, with longer and longer pauses. Its name may
// be missing for that time, as that of a container is.
func TestTheFeedOutlivesAServerThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, asked := time.Now(), 0
		c := to(t, nil, client.HTTPClient(&http.Client{Transport: failing(func(r *http.Request) (string, error) {
			switch asked++; {
			case asked == 1:
				return `{"events":[],"next":"AQ","more":false}`, nil
			case time.Since(begin) < time.Hour:
				return "", &net.DNSError{Err: "no such host", Name: r.URL.Host, IsNotFound: true}
			}
			return `{"events":[{"id":"evt_1"}],"next":"Ag","more":false}`, nil
		})}))
		for e, err := range c.Events(t.Context(), "") {
			if err != nil || e.ID != "evt_1" {
				t.Errorf("the event is %+v, error %v; want evt_1", e, err)
			}
			break
		}
		if asked < 360 || asked > 730 {
			t.Errorf("asked %d times in an hour, want one in 5 to 10 s", asked)
		}
	})
}

// TestTheFeedSaysThatNobodyHasEverAnswered, as waiting does not correct a wrong address.
func TestTheFeedSaysThatNobodyHasEverAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		took time.Duration // at most
	}{
		"a wrong port":   {errors.New("connection refused"), 30 * time.Second},
		"a wrong name":   {&net.DNSError{Err: "no such host", IsNotFound: true}, 0},
		"a wrong scheme": {http.ErrSchemeMismatch, 0},
		"no TLS":         {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begin := time.Now()
			api := to(t, nil, client.HTTPClient(&http.Client{Transport: failing(func(*http.Request) (string, error) { return "", c.err })}))
			for _, err := range api.Events(ctx, "") {
				if !errors.Is(err, client.ErrNoAnswer) || time.Since(begin) > c.took {
					t.Errorf("%s: %v after %v", name, err, time.Since(begin))
				}
			}
		})
	}
}

// failing answers requests with a body, or with an error of the network.
type failing func(*http.Request) (body string, err error)

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := f(r)
	if err != nil {
		return nil, err
	}
	return carrier(func(*http.Request) (int, string, string) { return 200, "", body }).RoundTrip(r)
}

func TestTheFeedEndsWhereFedpostRefusesIt(t *testing.T) {
	for _, status := range []int{400, 401, 403} {
		c := to(t, func(*http.Request) (int, string, string) { return status, "", `{"title":"No"}` })
		n := 0
		for _, err := range c.Events(t.Context(), "nonsense") {
			var p *client.Problem
			if n++; !errors.As(err, &p) || p.Status != status {
				t.Errorf("%d: %v", status, err)
			}
		}
		if n != 1 {
			t.Errorf("%d: ends after %d errors", status, n)
		}
	}
}

// TestWhoStopsFollowingAsksNoMore: leaving the loop ends the stream.
func TestWhoStopsFollowingAsksNoMore(t *testing.T) {
	asked := 0
	c := to(t, func(*http.Request) (int, string, string) {
		asked++
		return 200, "", fmt.Sprintf(`{"events":[{"id":"evt_%d"},{"id":"x"}],"next":"A%d","more":true}`, asked, asked)
	})
	for e, err := range c.Events(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if e.ID == "evt_2" {
			break
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
}

// TestAFeedThatStandsStillEndsInAnError, neither for ever nor with the same events again.
func TestAFeedThatStandsStillEndsInAnError(t *testing.T) {
	for name, page := range map[string]string{
		"events at one place": `{"events":[{"id":"evt_1"}],"next":"AQ","more":false}`,
		"more of nothing":     `{"events":[],"next":"AQ","more":true}`,
		"no next":             `{"events":[{"id":"evt_1"}],"more":false}`,
	} {
		asked := 0
		c := to(t, func(*http.Request) (int, string, string) {
			if asked++; asked > 10 {
				return 400, "", `{"title":"Too often"}`
			}
			return 200, "", page
		})
		told := 0
		var last error
		for _, err := range c.Events(t.Context(), "") {
			if last = err; err == nil {
				told++
			}
			if told > 2 {
				break
			}
		}
		if !errors.Is(last, client.ErrNotFedpost) || asked > 2 || told > 1 {
			t.Errorf("%s: asked %d times, told %d events, ends with %v", name, asked, told, last)
		}
	}
}

// TestAFeedThatIsOnlyMoreIsNotReadInAHotLoop, except for its first thousand pages: the requested
// types may be rare.
func TestAFeedThatIsOnlyMoreIsNotReadInAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, asked, rare := time.Now(), 0, time.Duration(-1)
		c := to(t, func(*http.Request) (int, string, string) {
			if asked++; asked == 1000 {
				rare = time.Since(begin)
			}
			return 200, "", fmt.Sprintf(`{"events":[],"next":"A%d","more":true}`, asked)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range c.Events(ctx, "") {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if asked > 20_000 {
				break
			}
		}
		if rare != 0 || asked > 1400 {
			t.Errorf("the first thousand took %v; asked %d times in a minute", rare, asked)
		}
	})
}

// TestTheFeedWaitsFiveMinutesAtMost, whatever the answers say.
func TestTheFeedWaitsFiveMinutesAtMost(t *testing.T) {
	for _, year := range []string{"31536000", "9223372036854775807", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var asked []time.Duration
			c := to(t, func(*http.Request) (int, string, string) {
				switch asked = append(asked, time.Since(begin)); len(asked) {
				case 1:
					return 503, year, `{"title":"Not now"}`
				case 2, 3:
					return 200, "", `{"events":[],"next":"AQ","more":false,"retryAfter":9223372036854775807}`
				}
				return 200, "", `{"events":[{"id":"evt_1"}],"next":"Ag","more":false}`
			})
			for _, err := range c.Events(t.Context(), "") {
				if err != nil {
					t.Error(err)
				}
				break
			}
			// The first request that is answered does not wait for events.
			if want := []time.Duration{0, 5 * time.Minute, 5 * time.Minute, 10 * time.Minute}; !slices.Equal(asked, want) {
				t.Errorf("%s: asked at %v, not at %v", year, asked, want)
			}
		})
	}
}
