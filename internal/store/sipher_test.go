package store_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/sqlite"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/store"
	"fedpost/internal/store/siphertest"
	"fedpost/internal/testkit/engines/awstest"
)

func TestSipherStorageOnTheEmbeddedEngine(t *testing.T) {
	siphertest.Run(t, func(t *testing.T, now func() time.Time) (sipher.Store, func()) {
		e, err := sqlite.Open(t.Context(), sqlite.Memory, sqlite.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return store.New(e.Table(), now).Sipher(), nil
	})
}

func TestSipherStorageOnDynamoDB(t *testing.T) {
	table := awstest.Table(t)
	var settle func()
	if !awstest.Local("DYNAMODB") {
		settle = func() { awstest.Wait(t, time.Second) }
	}
	siphertest.Run(t, func(_ *testing.T, now func() time.Time) (sipher.Store, func()) {
		return store.New(table, now).Sipher(), settle
	})
}
