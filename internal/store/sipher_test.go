package store_test

import (
	"testing"
	"time"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/protocol/sipher"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/store/siphertest"
	"fedpost/internal/testkit/engines/awstest"
	"fedpost/internal/testkit/engines/pgtest"
)

func TestSipherStorageOnTheEmbeddedEngine(t *testing.T) {
	siphertest.Run(t, func(t *testing.T, now func() time.Time) (sipher.Store, func()) {
		e := embedded(t, sqlite.Options{Now: now})
		return store.New(e.Table(), now).Sipher(), nil
	})
}

func TestABlockOfAHostOrOfSubdomainsBlocksItsSipherServers(t *testing.T) {
	e := embedded(t, sqlite.Options{})
	s := store.New(e.Table(), time.Now)
	block := func(key string, f func(circuit.State) circuit.State) {
		t.Helper()
		if _, _, err := circuit.Change(t.Context(), s, key, f); err != nil {
			t.Fatal(err)
		}
	}
	spam := func(st circuit.State) circuit.State { return st.Block(circuit.Default(), "spam", time.Now()) }
	block(circuit.FamilyKey("bad.example"), spam)
	block(circuit.HostKey("worse.example"), spam)
	block(circuit.FamilyKey("was.example"), func(st circuit.State) circuit.State {
		return spam(st).Unblock(circuit.Default(), time.Now())
	})
	for url, blocked := range map[string]bool{
		"https://a.bad.example": true, "https://b.a.bad.example:8443": true, "https://worse.example": true,
		"https://bad.example": false, "https://notbad.example": false, "https://a.worse.example": false, "https://a.was.example": false,
	} {
		got, err := s.Sipher().Blocked(t.Context(), url)
		if err != nil || (got != nil) != blocked || blocked && got.Reason != "spam" {
			t.Errorf("%s: %+v %v, blocked %v expected", url, got, err, blocked)
		}
	}
}

func TestSipherStorageOnPostgreSQL(t *testing.T) {
	e := pgtest.Open(t, postgres.Options{})
	siphertest.Run(t, func(_ *testing.T, now func() time.Time) (sipher.Store, func()) {
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
