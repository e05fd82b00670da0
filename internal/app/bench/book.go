package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// book keeps account of the deliveries of a run.
type book struct {
	plan Plan
	want int // deliveries to servers that answer

	taken []atomic.Uint32 // how often, by activity and recipient
	came  []atomic.Int64  // when first, Unix nanoseconds
	first atomic.Int64    // how many were taken at least once
	done  chan struct{}   // closed when that is all
	last  atomic.Int64    // when the latest was taken, Unix nanoseconds

	begun, answered []atomic.Int64 // when an activity's call began and was answered, Unix nanoseconds

	mu     sync.Mutex
	order  map[orderedAt]int // the latest activity
	faults []string
	more   int // faults that are not listed
}

// orderedAt is a host and the caller whose ordering key it is.
type orderedAt struct{ caller, host int }

func newBook(p Plan) *book {
	all := p.Activities*p.Recipients + p.Beside
	return &book{
		plan: p, want: p.healthy(), taken: make([]atomic.Uint32, all), came: make([]atomic.Int64, all), done: make(chan struct{}),
		begun: make([]atomic.Int64, p.Activities+1), answered: make([]atomic.Int64, p.Activities+1), order: map[orderedAt]int{},
	}
}

// take records that a server, which had the head of the request at came, took a delivery.
func (b *book) take(activity, recipient, host int, came time.Time) {
	if recipient < 0 || recipient >= b.plan.recipients(activity) || b.plan.host(activity, recipient) != host {
		b.fault("server %d got activity %d for recipient %d, which are not of this run or not of this server", host, activity, recipient)
		return
	}
	at := activity*b.plan.Recipients + recipient
	if n := b.taken[at].Add(1); n > 1 {
		b.fault("activity %d came %d times to recipient %d", activity, n, recipient)
		return
	}
	b.came[at].Store(came.UnixNano())
	if b.plan.Mix == Ordered && activity < b.plan.Activities {
		b.inOrder(activity, host)
	}
	b.last.Store(time.Now().UnixNano())
	if b.first.Add(1) == int64(b.want) {
		close(b.done)
	}
}

// after is how long after the time of its activity each delivery came. What came before, while
// the answer to the call was still on its way, came at once.
func (b *book) after(times []atomic.Int64) Spread {
	s := newSpread(b.plan.Activities * b.plan.Recipients)
	for at := range b.plan.Activities * b.plan.Recipients {
		if came := b.came[at].Load(); came > 0 {
			s.add(time.Duration(max(0, came-times[at/b.plan.Recipients].Load())))
		}
	}
	return s.result()
}

// inOrder checks that a caller's activities come to a server in the order of its calls.
// Caller c makes the calls c, c + callers, c + 2 × callers, and so on.
func (b *book) inOrder(activity, host int) {
	at := orderedAt{activity % b.plan.Callers, host}
	b.mu.Lock()
	last, ok := b.order[at]
	b.order[at] = max(last, activity)
	b.mu.Unlock()
	if ok && activity < last {
		b.fault("server %d got activity %d after activity %d of the same ordering key", host, activity, last)
	}
}

const mostFaults = 10

func (b *book) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) < mostFaults {
		b.faults = append(b.faults, fmt.Sprintf(format, args...))
		return
	}
	b.more++
}

// close ends the account and returns its faults.
func (b *book) close() []string {
	if lost := b.want - int(b.first.Load()); lost > 0 {
		b.fault("%d of %d deliveries have not arrived", lost, b.want)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := append([]string(nil), b.faults...)
	if b.more > 0 {
		all = append(all, fmt.Sprintf("and %d more", b.more))
	}
	return all
}

// The beginning of an activity, around its number. A server finds the number between them.
const (
	idBegin   = `https://bench.example/activities/`
	bodyBegin = `{"@context":"https://www.w3.org/ns/activitystreams","id":"` + idBegin
	bodyNext  = `","type":"Create","actor":"https://bench.example/users/zoe","object":{"type":"Note","content":"<p>`
	bodyEnd   = `</p>"}}`
)

// bodyOf is the activity of a number, of size bytes or a few more.
func bodyOf(number, size int) []byte {
	text := max(0, size-len(bodyBegin)-len(bodyNext)-len(bodyEnd)-6)
	filler := strings.Repeat("Grüße &amp; so. ", text/len("Grüße &amp; so. ")+1)[:text]
	filler = strings.ToValidUTF8(filler, ".")
	return fmt.Appendf(nil, "%s%d%s%s%s", bodyBegin, number, bodyNext, filler, bodyEnd)
}

// numberOf is the number of an activity, or an error if body is not, byte for byte, the
// activity that bodyOf makes.
func numberOf(body []byte, size int) (int, error) {
	rest, ok := bytes.CutPrefix(body, []byte(bodyBegin))
	digits, _, found := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.Atoi(string(digits))
	if !ok || !found || err != nil || n < 0 {
		return 0, fmt.Errorf("a body of %d bytes is none of this run: %.80q", len(body), body)
	}
	if !bytes.Equal(body, bodyOf(n, size)) {
		return 0, fmt.Errorf("the body of activity %d was changed on its way", n)
	}
	return n, nil
}

// numberByID is the number of an activity by its id, or an error if body is no JSON with an
// id of bodyOf.
func numberByID(body []byte) (int, error) {
	var a struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return 0, fmt.Errorf("a body of %d bytes is no activity: %w", len(body), err)
	}
	digits, ok := strings.CutPrefix(a.ID, idBegin)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 {
		return 0, fmt.Errorf("a body of %d bytes is none of this run: its id is %.80q", len(body), a.ID)
	}
	return n, nil
}
