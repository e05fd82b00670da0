package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"fedpost/internal/api/problem"
	"fedpost/internal/engine/outbox"
	"fedpost/internal/enqueue"
)

// AcceptRow does for a row of the outbox what POST /v1/activities does for a request. A row that
// is read again after a crash is a duplicate: it has a deduplication key made from its id, if
// it has no other, and the key's window is enqueue.MaxTTL unless the request has one. An error
// is a *problem.Problem.
func (a *API) AcceptRow(ctx context.Context, row outbox.Row) (res enqueue.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.o.Log.ErrorContext(ctx, "panic while accepting a row of the outbox", "row", row.ID, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", v)
		}
		if err != nil {
			err = problem.Of(err)
		}
	}()
	o := parse([]byte(row.Request), nil)
	req := a.readRequest(o)
	req.DeduplicationKey, req.DeduplicationTTL, req.DeduplicateBy = readKey(o, http.Header{})
	switch {
	case row.Key != nil && req.DeduplicationKey != nil && *row.Key != *req.DeduplicationKey:
		o.Fault("deduplicationKey", "differs from the row's deduplication_key; give one of them, or the same")
	case row.Key != nil:
		req.DeduplicationKey = row.Key
	case req.DeduplicationKey == nil:
		// With the time, as the ids of a truncated table may begin anew.
		key := "outbox/" + strconv.FormatInt(row.ID, 10) + "/" + strconv.FormatInt(row.Created.UnixMicro(), 10)
		req.DeduplicationKey = &key
	}
	req.DeduplicationTTL = cmp.Or(req.DeduplicationTTL, enqueue.MaxTTL)
	if err := a.complete(ctx, o, req); err != nil {
		return res, err
	}
	return a.accept(ctx, req)
}
