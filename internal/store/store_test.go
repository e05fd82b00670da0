package store_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/store/storetest"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/engines/pgtest"
	"fedpost/internal/testkit/long"
	"fedpost/internal/testkit/property"
)

// embedded opens an embedded engine for the time of the test.
func embedded(t testing.TB, o sqlite.Options) *sqlite.Engine {
	t.Helper()
	e, err := sqlite.Open(t.Context(), sqlite.Memory, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestStoreOnTheEmbeddedEngine(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) storetest.Harness {
		e := embedded(t, sqlite.Options{Now: now})
		return storetest.Harness{Table: e.Table(), Whole: long.On(), Check: property.Check}
	})
}

func TestStoreOnPostgreSQL(t *testing.T) {
	e := pgtest.Open(t, postgres.Options{})
	storetest.Run(t, func(*testing.T, func() time.Time) storetest.Harness {
		return storetest.Harness{Table: e.Table(), Check: property.Check}
	})
}

func TestStoreOnDynamoDB(t *testing.T) {
	table := awstest.Table(t)
	storetest.Run(t, func(*testing.T, func() time.Time) storetest.Harness {
		return storetest.Harness{Table: table, Whole: long.On(), Check: property.Check}
	})
}
