package app

import (
	"context"
	"time"

	"fedpost/internal/activity"
	"fedpost/internal/ledger"
	"fedpost/internal/store"
)

// activities serves the API's view of activities from the ledger.
type activities struct {
	*store.Store
	now func() time.Time
}

// View implements api.Activities.
func (a activities) View(ctx context.Context, id activity.ID, f ledger.RecipientFilter, cursor string, limit int) (ledger.View, error) {
	v, err := ledger.SelectView(ctx, a.Store, id, f, cursor, limit, a.now())
	if err != nil {
		return v, err
	}
	return v, ledger.Explain(ctx, a.Store, v.Recipients, a.now())
}
