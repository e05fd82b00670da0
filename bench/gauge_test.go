package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"fedpost/internal/testkit/engines/pgtest"
)

// grown bounds the growth of a figure that should be flat: the last quarter of a soak has at
// most grown times as much as the second, and a checkpoint. The first quarter is for warming
// up.
const grown = 1.2

// gauge samples what a process uses.
type gauge struct {
	t       testing.TB
	pid     int
	stored  sizes
	done    func() int // deliveries so far
	dead    func() (int, error)
	begin   time.Time
	samples []sample
	stop    func()
}

// sample is what a process uses at a time. Memory is its resident set, file the database
// without its write-ahead log; on PostgreSQL file are the tables of records, and log is what
// comes and goes, the tables of queues, with their indexes.
type sample struct {
	at                time.Duration
	done, dead        int   // deliveries so far, and dead letters
	memory, file, log int64 // bytes
}

// sizes returns the file and log of a sample.
type sizes func() (file, log int64, err error)

func inFile(data string) sizes {
	return func() (file, log int64, err error) {
		info, err := os.Stat(filepath.Join(data, "fedpost.db"))
		if err != nil {
			return 0, 0, err
		}
		if wal, err := os.Stat(filepath.Join(data, "fedpost.db-wal")); err == nil { // it comes and goes
			log = wal.Size()
		}
		return info.Size(), log, nil
	}
}

// inDatabase has its server vacuum each 15 s. The tables of queues hold the messages that were
// deleted since the last vacuum, so with PostgreSQL's own minute they grow throughout a soak of
// two minutes.
func inDatabase(t testing.TB, schema string) sizes {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	configure := func(statement string) {
		for _, sql := range []string{statement, "SELECT pg_reload_conf()"} {
			if _, err := pool.Exec(context.Background(), sql); err != nil { // the test's context has ended when this is undone
				t.Error(err)
			}
		}
	}
	configure("ALTER SYSTEM SET autovacuum_naptime = '15s'")
	t.Cleanup(func() { configure("ALTER SYSTEM RESET autovacuum_naptime") })
	return func() (file, log int64, err error) {
		err = pool.QueryRow(t.Context(), `SELECT coalesce(sum(size) FILTER (WHERE relname = 'item'), 0), coalesce(sum(size) FILTER (WHERE relname <> 'item'), 0)
			FROM (SELECT relname, pg_total_relation_size(oid)::bigint AS size FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r') t`, schema).Scan(&file, &log)
		return file, log, err
	}
}

// checkpoint is by how much SQLite's write-ahead log grows before its pages go into the
// file, in bytes, so it is also how exact the size of the file is.
const checkpoint = 4 << 20

// deadLetter bounds what a dead letter adds to the file, in bytes. The first deliveries die in the middle
// of a soak, so the quarters of a soak differ in their numbers of dead letters.
const deadLetter = 4 << 10

// measure samples each second until stop is called.
func measure(t testing.TB, pid int, stored sizes, done func() int, dead func() (int, error)) *gauge {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sampling sync.WaitGroup
	g := &gauge{t: t, pid: pid, stored: stored, done: done, dead: dead, begin: time.Now()}
	g.stop = func() { cancel(); sampling.Wait() }
	sampling.Go(func() {
		for ctx.Err() == nil {
			s, err := g.sample()
			if err != nil {
				t.Errorf("measure: %v", err)
				return
			}
			g.samples = append(g.samples, s)
			rest(ctx, time.Second)
		}
	})
	return g
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

func (g *gauge) sample() (sample, error) {
	s := sample{at: time.Since(g.begin), done: g.done()}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.pid))
	if err != nil {
		return s, err
	}
	found := resident.FindSubmatch(status)
	if found == nil {
		return s, fmt.Errorf("no memory in %q", status)
	}
	if s.memory, err = strconv.ParseInt(string(found[1]), 10, 64); err != nil {
		return s, err
	}
	s.memory <<= 10
	if s.dead, err = g.dead(); err != nil {
		return s, err
	}
	s.file, s.log, err = g.stored()
	return s, err
}

// flat checks that neither memory nor the write-ahead log have grown, and that a delivery adds as much to
// the file in the last quarter as in the second, without dead letters. The file itself grows, as
// records stay for a day at least.
func (g *gauge) flat() {
	g.t.Helper()
	last := g.samples[len(g.samples)-1]
	const rows = 16
	g.t.Logf("%10s %10s %10s %10s %10s %10s %10s", "time", "deliveries", "a second", "memory MB", "file MB", "log MB", "dead")
	before := g.samples[0]
	for row := 1; row <= rows; row++ {
		s := g.at(last.done * row / rows)
		g.t.Logf("%10s %10d %10.0f %10.1f %10.1f %10.1f %10d", s.at.Round(time.Second), s.done, float64(s.done-before.done)/max(0.001, (s.at-before.at).Seconds()), mega(s.memory), mega(s.file), mega(s.log), s.dead)
		before = s
	}
	if n := len(g.samples); n < rows {
		g.t.Logf("%d samples, one a second, are too few to say whether anything grows", n)
		return
	}
	rate := func(quarter int) float64 {
		from, to := g.at(last.done*(quarter-1)/4), g.at(last.done*quarter/4)
		return float64(to.done-from.done) / max(0.001, (to.at-from.at).Seconds())
	}
	g.t.Logf("a second: %.0f in the second quarter, %.0f in the last (%.2f ×)", rate(2), rate(4), rate(4)/max(1, rate(2)))
	for _, growth := range g.growth() {
		g.t.Error(growth)
	}
}

// growth returns what has grown and should not have.
func (g *gauge) growth() (complaints []string) {
	last := g.samples[len(g.samples)-1]
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	mean := func(quarter int, of func(sample) int64) float64 {
		sum, n := 0.0, 0.0
		for _, s := range g.samples {
			if s.done >= last.done*(quarter-1)/4 && s.done <= last.done*quarter/4 {
				sum, n = sum+mega(of(s)), n+1
			}
		}
		return sum / max(1, n)
	}
	for name, of := range map[string]func(sample) int64{
		"memory": func(s sample) int64 { return s.memory },
		"the write-ahead log, or the tables of queues,": func(s sample) int64 { return s.log },
	} {
		second, end := mean(2, of), mean(4, of)
		g.t.Logf("%s: %.1f MB in the second quarter, %.1f in the last", name, second, end)
		if end > grown*second+mega(checkpoint) {
			complain("%s grew from %.1f MB in the second quarter to %.1f in the last", name, second, end)
		}
	}
	added := func(quarter int) (file float64, dead int) {
		from, to := g.at(last.done*(quarter-1)/4), g.at(last.done*quarter/4)
		return mega(to.file - from.file), to.dead - from.dead
	}
	second, died := added(2)
	end, diedLast := added(4)
	g.t.Logf("the file grew by %.1f MB in the second quarter, by %.1f in the last, of %d deliveries each, of which %d and %d died",
		second, end, last.done/4, died, diedLast)
	if end > grown*second+mega(checkpoint)+mega(deadLetter)*float64(max(0, diedLast-died)) {
		complain("a delivery adds more and more to the file: a quarter of all added %.1f MB first, %.1f in the end, with %d and %d dead letters",
			second, end, died, diedLast)
	}
	return complaints
}

// at is the first sample with so many deliveries.
func (g *gauge) at(done int) sample {
	for _, s := range g.samples {
		if s.done >= done {
			return s
		}
	}
	return g.samples[len(g.samples)-1]
}

func mega(bytes int64) float64 { return float64(bytes) / (1 << 20) }
