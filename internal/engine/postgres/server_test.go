package postgres_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/queue"
	"fedpost/internal/testkit/engines/pgtest"
)

// pretend answers as a server of another kind would: to each query a row of the next values.
func pretend(t *testing.T, rows ...[]string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c, rows)
		}
	}()
	return "postgres://fedpost@" + l.Addr().String() + "/x?sslmode=disable&default_query_exec_mode=simple_protocol"
}

func answer(c net.Conn, rows [][]string) {
	defer func() { _ = c.Close() }()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		q, ok := m.(*pgproto3.Query)
		if !ok {
			return
		}
		if strings.HasPrefix(q.String, "-- ping") || len(rows) == 0 {
			b.Send(&pgproto3.EmptyQueryResponse{})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			continue
		}
		row := rows[0]
		rows = rows[1:]
		d, values := &pgproto3.RowDescription{}, &pgproto3.DataRow{}
		for _, v := range row {
			typ := uint32(25) // text
			if v == "t" || v == "f" {
				typ = 16 // bool
			}
			d.Fields = append(d.Fields, pgproto3.FieldDescription{Name: []byte("x"), DataTypeOID: typ, DataTypeSize: -1, TypeModifier: -1})
			values.Values = append(values.Values, []byte(v))
		}
		b.Send(d)
		b.Send(values)
		b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
}

func TestAServerThatCannotBeUsedIsRefusedInASentence(t *testing.T) {
	for name, c := range map[string]struct {
		rows [][]string
		says string
	}{
		"old":         {[][]string{{"PostgreSQL 13.22 on x86_64", "130022"}}, "use PostgreSQL 14 or later"},
		"CockroachDB": {[][]string{{"CockroachDB CCL v25.3.1", "130000"}}, "it is CockroachDB"},
		"YugabyteDB":  {[][]string{{"PostgreSQL 15.12-YB-2.25.1.0-b0 on x86_64", "150012"}}, "it is YB"},
		"a standby":   {[][]string{{"PostgreSQL 17.7", "170007"}, {"t", "on"}}, "it is a standby"},
	} {
		_, err := postgres.Open(t.Context(), pretend(t, c.rows...), postgres.Options{})
		if !errors.Is(err, postgres.ErrServer) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a sentence with %q", name, err, c.says)
		}
	}
}

func TestAPasswordIsInNoError(t *testing.T) {
	for _, url := range []string{"postgres://me:geheim@127.0.0.1:1/x", "postgres://me:geheim@127.0.0.1:port/x", "host=127.0.0.1 port=1 password=geheim sslmode=what"} {
		_, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("error %v, want one without the password", err)
		}
	}
}

// TestProcessesThatStartTogetherMigrateOnce opens a new schema from several processes at once.
func TestProcessesThatStartTogetherMigrateOnce(t *testing.T) {
	schema := pgtest.Schema(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			e, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{Schema: schema})
			if err != nil {
				t.Error(err)
				return
			}
			if err := e.Queue(queue.Normal).Send(t.Context(), queue.Message{Body: "x"}); err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d, err := pgtest.Open(t, postgres.Options{Schema: schema}).Queue(queue.Normal).Depth(t.Context())
	if err != nil || d.Visible != 4 {
		t.Errorf("%+v, error %v, want the messages of all four", d, err)
	}
}

func TestASchemaOfAMuchNewerFedpostIsRefused(t *testing.T) {
	schema := pgtest.Schema(t)
	pgtest.Open(t, postgres.Options{Schema: schema})
	for ahead, want := range map[int]error{1: nil, 2: postgres.ErrNewer} {
		pgtest.Exec(t, `DELETE FROM `+schema+`.migration WHERE name = 'newer'`)
		pgtest.Exec(t, `INSERT INTO `+schema+`.migration (version, name) SELECT max(version) + $1::int, 'newer' FROM `+schema+`.migration`, ahead)
		e, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{Schema: schema})
		if !errors.Is(err, want) {
			t.Errorf("%d versions ahead: %v, want %v", ahead, err, want)
		}
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
