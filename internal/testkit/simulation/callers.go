package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/app/topology"
	"fedpost/internal/testkit/faults"
)

// act does an act at its time.
func (s *sim) act(a Act) {
	name := a.name()
	s.wait(name, a.At)
	if s.over.Load() {
		return
	}
	switch {
	case a.Post != nil && a.Post.Batch != 0:
		s.submitBatch(*a.Post, name)
	case a.Post != nil:
		for twin := range a.Post.Twins {
			twin := fmt.Sprintf("%s twin %d", name, twin+1)
			s.goes(func() {
				if n := s.draw("twin", twin); n%2 == 0 {
					s.wait(twin, time.Duration(n%45)*time.Second)
				}
				s.submit(*a.Post, twin)
			})
		}
		s.submit(*a.Post, name)
	case a.Do == Kill:
		if p := s.pick(name); p != nil {
			p.die("killed")
		}
	case a.Do == SetBack, a.Do == SetForward:
		if s.back = 0; a.Do == SetBack {
			s.back = a.For
		}
		for _, p := range s.processes {
			p.skew = p.spec.Skew - s.back
		}
		s.story.print("%s %s", a.Do, a.For)
	case a.Do == Register:
		s.register(a, name)
	default:
		s.operate(a, name)
	}
}

func (a Act) name() string {
	if a.Post != nil {
		return fmt.Sprintf("post %d", a.Post.N)
	}
	return fmt.Sprintf("%s %s%d at %s", a.Do, a.Host, a.N, a.At)
}

// pick returns a process that is alive.
func (s *sim) pick(why string) *process {
	var living []*process
	for _, spec := range s.scenario.Processes {
		if p := s.processes[spec.Name]; !p.dead.Load() {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return living[s.draw("process", why)%uint64(len(living))]
}

// submit posts an activity as a careful client does: with a deduplication key it tries again if
// there was no answer, or one that asks for it.
func (s *sim) submit(p Post, name string) {
	at := s.book.post(p)
	if p.After != 0 {
		for !s.over.Load() && !s.book.post(s.book.spec(p.After)).settled {
			s.wait(name, time.Second)
		}
	}
	for try := 0; try <= p.Patience && !s.over.Load(); try++ {
		if at.tries++; at.tries == 1 {
			at.began = time.Now()
		}
		status, body := s.call(fmt.Sprintf("%s try %d", name, try), http.MethodPost, "/v1/activities", p.request())
		s.book.answered(at, status, body)
		if status == http.StatusAccepted || status >= 400 && status < 500 && status != http.StatusConflict {
			break
		}
		s.wait(name, time.Duration(1+s.draw("patience", name, fmt.Sprint(try))%30)*time.Second)
	}
	at.settled = true
}

// request is the body of a post.
func (p Post) request() string {
	// The activity is inserted as it is: Marshal would escape some of its characters.
	b := &strings.Builder{}
	if p.Job != "" {
		fmt.Fprintf(b, `{"protocol":"sipher","job":%q,"serverUrl":"https://%s","payload":%s,"recipients":[%q]`,
			p.Job, p.Recipients[0].Server, quoted(p.body()), p.Recipients[0].url())
	} else {
		fmt.Fprintf(b, `{"keyId":%q,"preferSharedInbox":false,"activity":%s,"recipients":["%s"]`, keyID(p.Actor), p.body(), strings.Join(p.urls(), `","`))
	}
	text := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, `,%q:%q`, name, value)
		}
	}
	text("orderingKey", p.Ordering)
	text("deduplicationKey", p.Dedup)
	text("priority", p.Priority)
	if p.Delay > 0 {
		fmt.Fprintf(b, `,"delay":%d`, int(p.Delay.Seconds()))
	}
	if p.Expires > 0 {
		fmt.Fprintf(b, `,"expiresIn":%d`, int(p.Expires.Seconds()))
	}
	if p.Subject != "" {
		text("coalesce", "latest")
	}
	b.WriteString("}")
	return b.String()
}

// quoted is a text as JSON.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (p Post) body() string {
	if p.Job != "" {
		return p.payload()
	}
	text := quoted(p.Text)
	if p.Subject != "" {
		return fmt.Sprintf(`{"sim":%d,"id":"https://us.example/a/%d","type":"Update","actor":"https://us.example/users/%d","object":{"id":"https://us.example/notes/%s","type":"Note","content":"version %d"}}`,
			p.N, p.N, p.Actor, p.Subject, p.N)
	}
	return fmt.Sprintf(`{"sim":%d,"id":"https://us.example/a/%d","type":"Create","actor":"https://us.example/users/%d","content":%s}`, p.N, p.N, p.Actor, text)
}

func (p Post) urls() []string {
	var all []string
	for _, r := range p.Recipients {
		all = append(all, r.url())
	}
	return all
}

// call makes a call to the API; status 0 is no answer. A function is stopped when its time is over;
// `up` goes on after its client has left.
func (s *sim) call(actor, method, path, body string) (int, string) {
	p := s.pick(actor)
	if p == nil {
		return 0, ""
	}
	ctx, leave := context.WithCancel(as(context.Background(), actor))
	if !p.spec.Whole {
		ctx, leave = context.WithTimeout(as(context.Background(), actor), topology.Enqueue.Timeout)
	}
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
	r.Host = "localhost"
	if body != "" || method == http.MethodPost || method == http.MethodPut {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	began, done := time.Now(), false
	s.goes(func() {
		defer p.begins(requests, 1)()
		p.api.ServeHTTP(w, r)
		done = true
	})
	s.hold(&held{Call: faults.Call{Target: "api", Op: method}, actor: actor, when: func() time.Time {
		if done || p.dead.Load() {
			return began
		}
		return began.Add(clientPatience)
	}})
	answered := done && !p.dead.Load() && !s.over.Load() && ctx.Err() == nil
	leave()
	if !answered {
		return 0, ""
	}
	return w.Code, w.Body.String()
}

// clientPatience is how long a client waits for an answer.
const clientPatience = 30 * time.Second

// operate repeats an operator's act until it succeeds.
func (s *sim) operate(a Act, name string) {
	host := "/v1/servers/" + url.PathEscape(a.Host)
	method, path, body := http.MethodPost, "", ""
	switch a.Do {
	case Block:
		path, body = host+"/block", `{"reason":"spam"}`
	case Unblock:
		path = host + "/unblock"
	case Pause:
		path, body = host+"/pause", fmt.Sprintf(`{"for":%d}`, int(a.For.Seconds()))
	case Check:
		path = host + "/check"
	case Limit:
		method, path, body = http.MethodPut, host, fmt.Sprintf(`{"rateLimit":{"perMinute":%d}}`, a.Rate)
	case RetryDead:
		path, body = "/v1/dead-letters/retry", fmt.Sprintf(`{"host":%q}`, a.Host)
	case Rotate:
		method, path, body = http.MethodPut, "/v1/keys/"+url.PathEscape(keyID(a.N)), keyRequest(a.N, a.Key)
		s.book.keys.offer(a.N, a.Key)
	case Cancel, Retry:
		ids := s.book.post(s.book.spec(a.N)).ids
		if len(ids) == 0 {
			return
		}
		if path = "/v1/activities/" + string(ids[0]) + "/cancel"; a.Do == Retry {
			path, body = "/v1/activities/"+string(ids[0])+"/retry", `{"states":["failed","dead"]}`
		}
	}
	s.story.print("an operator: %s %s", a.Do, a.Host)
	var answer string
	for try := range 8 {
		var status int
		if status, answer = s.call(fmt.Sprintf("%s try %d", name, try), method, path, body); status >= 200 && status < 300 || s.over.Load() {
			if a.Do == Rotate && !s.over.Load() {
				s.book.keys.replaced(a.N, a.Key, time.Now())
			}
			if a.Do == Retry && try == 0 {
				s.retryAnswered(a, answer)
			}
			return
		}
		if status == http.StatusNotFound && (a.Do == Cancel || a.Do == Retry) && s.book.posts[a.N].forgotten(s) || status == http.StatusConflict && (strings.Contains(answer, "blocked") || strings.Contains(answer, "nothing-to-cancel") || strings.Contains(answer, "activity-over")) {
			return
		}
		if status >= 400 && status < 500 && status != http.StatusConflict {
			break
		}
		s.wait(name, 10*time.Second)
	}
	s.story.print("an operator's %s %s is not heard: %.300s", method, path, answer)
	if s.calm() {
		s.fail("operator", "%s %s with %s is not done: %s", method, path, body, answer)
	}
}

// calm reports whether nothing of ours fails in this story.
func (s *sim) calm() bool {
	f := s.scenario.Faults
	kills := slices.ContainsFunc(s.scenario.Acts, func(a Act) bool { return a.Do == Kill })
	return f.Fail+f.Lose+f.Die+f.Late+f.Stuck == 0 && len(f.At) == 0 && !kills
}

// accepted reads the id of an answer.
func accepted(body string) (id activity.ID, status string) {
	var a struct {
		ID     activity.ID `json:"id"`
		Status string      `json:"status"`
	}
	if json.Unmarshal([]byte(body), &a) != nil {
		return "", ""
	}
	return a.ID, a.Status
}
