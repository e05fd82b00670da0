package move

import (
	"bytes"
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"fedpost/internal/activity/outcome"
	"fedpost/internal/app/progress"
	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/keys/kms"
	"fedpost/internal/ledger/events"
	"fedpost/internal/protocol/sipher/follow"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/store"
	"fedpost/internal/testkit/engines"
	"fedpost/internal/testkit/memory"
)

const (
	secret = "correct horse battery staple"
	cheap  = 2 // work factor of passphrases in tests
	frida  = "https://social.example/users/frida#main-key"
	otto   = "https://social.example/users/otto#main-key"
)

var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// fakeKMS seals as KMS does: what is sealed opens with the same encryption context only.
type fakeKMS map[string]string

func (f fakeKMS) Encrypt(_ context.Context, in *awskms.EncryptInput, _ ...func(*awskms.Options)) (*awskms.EncryptOutput, error) {
	blob := fmt.Sprintf("blob %d", len(f))
	f[blob] = fmt.Sprint(in.EncryptionContext) + string(in.Plaintext)
	return &awskms.EncryptOutput{CiphertextBlob: []byte(blob)}, nil
}

func (f fakeKMS) Decrypt(_ context.Context, in *awskms.DecryptInput, _ ...func(*awskms.Options)) (*awskms.DecryptOutput, error) {
	text, ok := strings.CutPrefix(f[string(in.CiphertextBlob)], fmt.Sprint(in.EncryptionContext))
	if !ok {
		return nil, &types.InvalidCiphertextException{Message: aws.String("no")}
	}
	return &awskms.DecryptOutput{Plaintext: []byte(text)}, nil
}

func sealing(f fakeKMS) keys.Sealer { return kms.New(f.Encrypt, f.Decrypt, "alias/fedpost") }

// made is an installation of a test.
type made struct {
	*testing.T
	Installation
	table table.Table
	open  func(table.Table) Installation // the same one on its table under faults
}

func install(t *testing.T, on table.Table, sealer keys.Sealer) made {
	t.Helper()
	open := func(on table.Table) Installation { return New(on, sealer, func() time.Time { return start }) }
	return made{t, open(on), on, open}
}

// up is an installation of fedpost up: SQLite, and a sealing key in a file.
func up(t *testing.T) made {
	t.Helper()
	e := engines.OpenEmbedded(t, engines.Options{Now: func() time.Time { return start }})
	s, err := keys.OpenLocalSealerOf(t.Context(), keys.SealingKey{File: filepath.Join(t.TempDir(), "sealing.key")}, store.New(e.Table(), time.Now))
	if err != nil {
		t.Fatal(err)
	}
	return install(t, e.Table(), s)
}

// standIn is an installation as on AWS: another table, and KMS.
func standIn(t *testing.T) made {
	t.Helper()
	return install(t, memory.New(func() time.Time { return start }, nil).Table(), sealing(fakeKMS{}))
}

// onDynamoDB is an installation on the DynamoDB that the environment names.
func onDynamoDB(t *testing.T) made {
	t.Helper()
	return install(t, engines.AWS().Open(t, engines.Options{Now: time.Now}).Table(), sealing(fakeKMS{}))
}

func (m made) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// change changes the record of a server.
func (m made) change(key string, f func(circuit.State) circuit.State) {
	m.Helper()
	_, _, err := circuit.Change(m.Context(), m.store, key, f)
	m.must(err)
}

func pinned(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// fill makes one of everything that moves, and of what does not.
func (m made) fill() made {
	m.Helper()
	ctx, x := m.Context(), m.store.Sipher()
	for id, t := range map[string]keys.Type{frida: keys.Ed25519, otto: keys.RSA} {
		_, err := m.ring.Generate(ctx, id, t)
		m.must(err)
	}
	m.change(circuit.HostKey("bad.example"), func(s circuit.State) circuit.State { return s.Block(rules, "spam", start) })
	m.change(circuit.FamilyKey("evil.example"), func(s circuit.State) circuit.State { return s.Block(rules, "", start) })
	m.change(circuit.HostKey("rest.example"), func(s circuit.State) circuit.State { return s.Pause(rules, time.Time{}, "moves house", start) })
	m.change(circuit.HostKey("later.example"), func(s circuit.State) circuit.State { return s.Pause(rules, start.Add(time.Hour), "", start) })
	_, err := m.limits.Set(ctx, "slow.example", 60, 5)
	m.must(err)
	m.change(circuit.HostKey("slow.example"), func(s circuit.State) circuit.State { return s.LimitTo(rules, 60, start) })
	l, err := m.limits.Learn(ctx, "busy.example", 90)
	m.must(err)
	m.change(circuit.HostKey("busy.example"), func(s circuit.State) circuit.State {
		return s.LearnRate(rules, l.PerMinute, l.Until, start)
	})
	m.change(circuit.HostKey("down.example"), func(s circuit.State) circuit.State {
		s = s.Fault(rules, outcome.ConnRefused, "connection refused", start.Add(-time.Hour))
		return s.CheckFailed(rules, outcome.ConnRefused, "connection refused", start).Park(rules, start)
	})
	m.change(circuit.HostKey("new.example"), func(s circuit.State) circuit.State {
		for _, inbox := range []circuit.FormTaken{{Shared: true}, {Inbox: "https://new.example/u/inbox"}} {
			inbox.Refused, inbox.Form, inbox.Until = "cavage", "rfc9421", start.Add(time.Hour)
			s = s.TookForm(rules, inbox, start.Add(-time.Hour)).TookForm(rules, inbox, start)
		}
		return s.TookForm(rules, circuit.FormTaken{Inbox: "https://new.example/v/inbox", Refused: "cavage", Form: "cavage-path", AcceptedRefused: true}, start)
	})
	w := webhook.Webhook{ID: "mine", URL: "https://social.example/hook", Types: []string{"recipient.gone"}, Batch: true, CreatedAt: start, Cursor: "c"}
	for range 2 { // the second replaces the first, which is valid for a day
		m.must(w.Replace(ctx, m.sealer, webhook.NewSecret(), start))
	}
	_, err = m.store.SaveWebhook(ctx, w)
	m.must(err)
	_, _, err = x.Insert(ctx, peers.Server{URL: "https://peer.example", PublicKey: pinned("A"), EncryptionKey: pinned("B"), CreatedAt: start, UpdatedAt: start, Reason: peers.TimedOut, Attempts: 2})
	m.must(err)
	_, _, err = x.Insert(ctx, peers.Server{URL: "https://stranger.example", PublicKey: pinned("C"), EncryptionKey: pinned("D"), Stranger: true, LastSeen: start})
	m.must(err)
	m.must(x.Block(ctx, peers.Block{ServerURL: "https://sipher.evil.example", Reason: "spam", CreatedAt: start}))
	m.must(x.RecordFollow(ctx, follow.Follow{ID: "f1", FollowerID: "frida", FollowingID: "them", FollowerServerURL: "https://peer.example", Accepted: true, RecordedAt: start, UpdatedAt: start}))
	return m
}

// export is the file of an installation.
func (m made) export() []byte {
	m.Helper()
	var file bytes.Buffer
	_, err := Export(m.Context(), m.Installation, &file, secret, cheap)
	m.must(err)
	return file.Bytes()
}

func (m made) opened(file []byte) File {
	m.Helper()
	f, err := Open(bytes.NewReader(file), int64(len(file)), secret)
	m.must(err)
	return f
}

// content is what a file has, by name.
func (m made) content(file []byte) map[string]string {
	m.Helper()
	all := map[string]string{}
	m.must(m.opened(file).each(func(t thing) error {
		text, err := json.Marshal(t)
		all[t.name()] = string(text)
		return err
	}))
	return all
}

func sameContent(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is\n%.300s\nwant\n%.300s", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d things, want %d: %q", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
}

// TestAMoveSaysHowFarItIs while somebody waits.
func TestAMoveSaysHowFarItIs(t *testing.T) {
	var part progress.Part
	ctx, m := progress.With(t.Context(), func(_ string, p progress.Part) { part = p }), standIn(t).fill()
	var file bytes.Buffer
	_, err := Export(ctx, m.Installation, &file, secret, cheap)
	m.must(err)
	if done, all := part(); done != 14 || all != 0 {
		t.Errorf("an export has written %d records of %d, want 14 of a number that is not known", done, all)
	}
	f := m.opened(file.Bytes())
	_, err = f.Import(ctx, standIn(t).Installation, Options{})
	m.must(err)
	if done, all := part(); done != f.size || all != f.size {
		t.Errorf("an import has read %d bytes of %d, want %d of %[3]d", done, all, f.size)
	}
}

// moves are the directions.
var moves = map[string]struct{ from, to func(*testing.T) made }{
	"to AWS": {up, standIn}, "from AWS": {standIn, up}, "to DynamoDB": {up, onDynamoDB}, "from DynamoDB": {onDynamoDB, up},
}

// TestWhatMovesArrives, and what is exported there is what was exported here.
func TestWhatMovesArrives(t *testing.T) {
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			from, to := move.from(t).fill(), move.to(t)
			file := from.export()
			want := from.content(file)
			if len(want) != 14 {
				t.Fatalf("%d things: %q", len(want), slices.Sorted(maps.Keys(want)))
			}
			for range 2 {
				dry, err := to.opened(file).Import(t.Context(), to.Installation, Options{DryRun: true})
				if err != nil || dry[keyKind].Added != 2 {
					t.Fatalf("dry run: %+v, %v", dry, err)
				}
			}
			report, err := to.opened(file).Import(t.Context(), to.Installation, Options{})
			added := Report{keyKind: {Added: 2}, serverKind: {Added: 8}, webhookKind: {Added: 1}, peerKind: {Added: 1}, blockKind: {Added: 1}, followKind: {Added: 1}}
			if err != nil || !maps.Equal(report, added) {
				t.Fatalf("the import reports %+v, error %v; want %+v", report, err, added)
			}
			sameContent(t, to.content(to.export()), want)

			again, err := to.opened(file).Import(t.Context(), to.Installation, Options{})
			there := Report{keyKind: {Same: 2}, serverKind: {Same: 5, Left: 3}, webhookKind: {Same: 1}, peerKind: {Same: 1}, blockKind: {Same: 1}, followKind: {Same: 1}}
			if err != nil || !maps.Equal(again, there) {
				t.Errorf("again: %+v, %v", again, err)
			}
			sameContent(t, to.content(to.export()), want)
			to.works(from)
		})
	}
}

// works checks the imported data with verbs of fedpost.
func (m made) works(from made) {
	m.Helper()
	ctx := m.Context()
	for _, id := range []string{frida, otto} {
		there, err := m.ring.SigningKey(ctx, id)
		m.must(err)
		here, err := from.ring.SigningKey(ctx, id)
		m.must(err)
		if !here.(interface{ Equal(crypto.PrivateKey) bool }).Equal(there) {
			m.Errorf("%s is another key", id)
		}
	}
	states, err := m.store.Servers(ctx, circuit.HostKey("down.example"), circuit.FamilyKey("evil.example"), circuit.HostKey("new.example"))
	m.must(err)
	down := states[circuit.HostKey("down.example")]
	if down.Decision(start) != circuit.Wait || down.Parked || !down.DownSince.Equal(start.Add(-time.Hour)) || down.Checks != 1 || !down.CheckAt.After(start) || down.Forget.IsZero() {
		m.Errorf("a server that is down arrives as %+v", down)
	}
	if s := states[circuit.FamilyKey("evil.example")]; s.Decision(start) != circuit.Refuse || !s.Forget.IsZero() {
		m.Errorf("subdomains that are blocked arrive as %+v", s)
	}
	if s := states[circuit.HostKey("new.example")]; s.FormAt(start) != "rfc9421" || s.Forms == "" || s.MaybeFormBy == "" {
		m.Errorf("signature forms arrive as %+v", s)
	}
	w, err := m.store.Webhook(ctx, "mine")
	m.must(err)
	if end, err := m.store.EventsEnd(ctx); err != nil || w.Cursor != end {
		m.Errorf("the webhook is at %q of %q, %v", w.Cursor, end, err)
	}
	feed := events.Feed{Store: m.store}
	if told, err := feed.Read(ctx, events.Query{Limit: 10}); err != nil || len(told.Events) != 0 {
		m.Errorf("an import makes news: %+v, %v", told, err)
	}
}
