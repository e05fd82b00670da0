package operator

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"fedpost/client"
	"fedpost/internal/activity"
	"fedpost/internal/api"
	"fedpost/internal/api/problem"
	"fedpost/internal/enqueue"
	"fedpost/internal/keys"
	"fedpost/internal/ledger"
)

func (h handlers) listKeys(r *http.Request) (any, error) {
	q, limit := api.ReadPage(r, api.UsualPage, api.MostPage)
	if err := q.Check(); err != nil {
		return nil, err
	}
	ks, next, err := h.Keys.List(r.Context(), q.Get("cursor"), limit)
	return client.Keys{Keys: api.Each(ks, api.Key), NextCursor: next}, err
}

func (h handlers) deleteKey(r *http.Request) (any, error) {
	q := api.ReadQuery(r, "force")
	force := q.Flag("force")
	if err := q.Check(); err != nil {
		return nil, err
	}
	k, err := api.PathKey(r, h.Keys)
	if err != nil {
		return nil, err
	}
	n, atLeast, err := h.needed(r.Context(), k.ID)
	if err != nil {
		return nil, err
	}
	if n > 0 && !force {
		more := ""
		if atLeast {
			more = "at least "
		}
		return nil, problem.Typed(http.StatusConflict, "key-needed", "Key needed",
			fmt.Sprintf("The key is needed by %s%d waiting deliveries, which would fail without it. Wait for them, cancel them, or repeat with force=true.", more, n))
	}
	if err := h.Keys.Delete(r.Context(), k.ID); err != nil {
		return nil, api.KeyProblem(err)
	}
	return client.DeletedKey{ID: k.ID, Waiting: n, AtLeast: atLeast, EffectiveBy: h.Now().Add(keys.Everywhere).UTC()}, nil
}

// Bounds of the search for what needs a key.
const (
	mostNeeding = 1000 // activities whose counts are read
	mostSeen    = 5000 // entries of lists
)

// needed counts the recipients that wait for a delivery signed with a key, in the activities of the
// actors whose key it may be. atLeast: they were too many to read all.
func (h handlers) needed(ctx context.Context, id string) (n int, atLeast bool, err error) {
	looked, seen := 0, 0
	for _, sender := range enqueue.SendersOf(id) {
		s := ledger.Sought{Sender: sender, Since: h.Now().Add(-ledger.LongestBack)}
		for cursor := ""; ; {
			ls, next, err := h.Activities.FindActivities(ctx, s, cursor, mostNeeding)
			if err != nil {
				return 0, false, err
			}
			seen += len(ls)
			waiting, tried, err := h.waitForKey(ctx, ls, id, mostNeeding-looked)
			if err != nil {
				return 0, false, err
			}
			n, looked = n+waiting, looked+tried
			if looked >= mostNeeding || seen >= mostSeen {
				return n, true, nil
			}
			if cursor = next; next == "" {
				break
			}
		}
	}
	return n, false, nil
}

// waitForKey counts the unfinished recipients of the listed activities that are signed with a key. It
// reads at most a number of activities.
func (h handlers) waitForKey(ctx context.Context, ls []ledger.Listed, id string, most int) (n, looked int, err error) {
	signed := slices.DeleteFunc(ls, func(l ledger.Listed) bool { return l.KeyID != id })
	signed = signed[:min(len(signed), most)]
	found, err := views(ctx, h.Activities, signed)
	for _, v := range found {
		if v == nil {
			continue
		}
		for state, c := range v.Counts {
			if !activity.State(state).Final() {
				n += c
			}
		}
	}
	return n, len(signed), err
}
