package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// batch lists the posts of a batch, in their order.
func (s *sim) batch(number int) []*posted {
	var all []*posted
	for _, a := range s.scenario.Acts {
		if a.Post != nil && a.Post.Batch == number {
			all = append(all, s.book.post(*a.Post))
		}
	}
	return all
}

// submitBatch submits a batch as a careful client does, if p is its first post.
func (s *sim) submitBatch(p Post, name string) {
	all := s.batch(p.Batch)
	if all[0].N != p.N {
		return
	}
	parts := make([]string, len(all))
	for i, of := range all {
		one := of.Post
		one.Dedup = "" // the batch has one for all
		parts[i] = one.request()
	}
	body := fmt.Sprintf(`{"activities":[%s]`, strings.Join(parts, ","))
	if p.Dedup != "" {
		body += fmt.Sprintf(`,"deduplicationKey":%q`, p.Dedup)
	}
	body += "}"
	for try := 0; try <= p.Patience && !s.over.Load(); try++ {
		for _, of := range all {
			if of.tries++; of.tries == 1 {
				of.began = time.Now()
			}
		}
		status, answer := s.call(fmt.Sprintf("%s try %d", name, try), http.MethodPost, "/v1/activities/batch", body)
		s.answeredBatch(all, status, answer)
		if status == http.StatusAccepted || status >= 400 && status < 500 && status != http.StatusConflict {
			break
		}
		s.wait(name, time.Duration(1+s.draw("patience", name, fmt.Sprint(try))%30)*time.Second)
	}
	for _, of := range all {
		of.settled = true
	}
}

// answeredBatch records the answer to a try of a batch, for each of its posts.
func (s *sim) answeredBatch(all []*posted, status int, body string) {
	var answer struct {
		Activities []json.RawMessage `json:"activities"`
	}
	if status == http.StatusAccepted {
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Activities) != len(all) {
			s.fail("refused", "a batch of %d is answered with %d ids (%v): %.300s", len(all), len(answer.Activities), err, body)
			return
		}
	}
	for i, of := range all {
		one := body
		if status == http.StatusAccepted {
			one = string(answer.Activities[i])
		}
		s.book.answered(of, status, one)
	}
}

// checkBatches finds batches that were accepted in part: servers took one part, and another part,
// to servers that take everything, came nowhere. A batch is accepted as a whole or not at all.
// checkPost looks at parts whose id is known.
func (s *sim) checkBatches() {
	seen := map[int]bool{}
	for _, a := range s.scenario.Acts {
		if a.Post == nil || a.Post.Batch == 0 || seen[a.Post.Batch] {
			continue
		}
		seen[a.Post.Batch] = true
		var taken, missing string
		for _, of := range s.batch(a.Post.Batch) {
			for inbox, d := range of.inboxes {
				switch host := strings.Split(inbox, "/")[2]; {
				case len(d.accepted) > 0:
					taken = fmt.Sprintf("post %d by %s", of.N, inbox)
				case len(of.ids) == 0 && of.Expires == 0 && s.accepting(host):
					missing = fmt.Sprintf("post %d by %s", of.N, inbox)
				}
			}
		}
		if taken != "" && missing != "" {
			s.fail("half", "of a batch, %s was taken, and %s never got", taken, missing)
		}
	}
}

// accepting reports whether a server takes everything at all times, and no operator changes that.
func (s *sim) accepting(host string) bool {
	v := s.servers[host]
	if v == nil || len(v.Phases)+len(v.Inboxes) > 0 || v.Strict || v.Rate > 0 {
		return false
	}
	for _, a := range s.scenario.Acts {
		if a.Host == host {
			return false
		}
	}
	return true
}
