package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fedpost/internal/engine/table"
	"fedpost/internal/keys"
	"fedpost/internal/protocol/sipher/peers"
	"fedpost/internal/protocol/webhook"
	"fedpost/internal/servers/circuit"
	"fedpost/internal/testkit/faults"
)

// writes counts the writes to a table.
type writes struct {
	table.Table
	n int
}

func (w *writes) Put(ctx context.Context, it table.Item, c table.Cond) error {
	w.n++
	return w.Table.Put(ctx, it, c)
}

func (w *writes) Transact(ctx context.Context, ops []table.Op) error {
	w.n++
	return w.Table.Transact(ctx, ops)
}

// TestAFileThatIsNotWholeIsRefused: with a wrong passphrase, cut off anywhere, or changed
// anywhere.
func TestAFileThatIsNotWholeIsRefused(t *testing.T) {
	file := up(t).fill().export()
	read := func(file []byte, passphrase string) error {
		_, err := Open(bytes.NewReader(file), int64(len(file)), passphrase)
		return err
	}
	if err := read(file, secret); err != nil {
		t.Fatal(err)
	}
	if err := read(file, secret+" "); !errors.Is(err, ErrPassphrase) {
		t.Errorf("a wrong passphrase: %v", err)
	}
	for n := 0; n < len(file); n += 1 + n/50 {
		if err := read(file[:n], secret); !errors.Is(err, ErrNotExport) {
			t.Fatalf("%d of %d bytes: %v", n, len(file), err)
		}
		changed := bytes.Clone(file)
		changed[n] ^= 1
		if err := read(changed, secret); !errors.Is(err, ErrNotExport) && !errors.Is(err, ErrPassphrase) {
			t.Fatalf("byte %d of %d changed: %v", n, len(file), err)
		}
	}
	if err := read([]byte("-----BEGIN PRIVATE KEY-----"), secret); !errors.Is(err, ErrNotExport) {
		t.Errorf("another file: %v", err)
	}
}

// TestAFileThatCannotBeReadSaysWhatToDo, not only that it cannot be.
func TestAFileThatCannotBeReadSaysWhatToDo(t *testing.T) {
	whole := up(t).fill().export()
	sealed := func(lines string) []byte {
		t.Helper()
		var file bytes.Buffer
		w, err := raw(&file)
		if err == nil {
			_, err = w.to.Write([]byte(lines))
		}
		if err = errors.Join(err, w.to.Close()); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	changed := bytes.Clone(whole)
	changed[len(changed)-1] ^= 1
	for says, c := range map[string]struct {
		file       []byte
		passphrase string
	}{
		"it is empty; export once more":                                     {nil, secret},
		"it is another kind of file; fedpost restore takes backups":         {[]byte("fedpost.db\x00\x00\x00 ustar and so on"), secret},
		"it was cut off or changed after it was written; copy it once more": {whole[:len(whole)/2], secret},
		"or export again (failed to decrypt":                                {changed, secret},
		"give the passphrase of the export":                                 {whole, "another"},
		"it has version 2 of the format, and this fedpost reads version 1; import it with the version of fedpost that wrote it": {
			sealed(`{"fedpostExport":{"version":2,"of":"the moon"}}` + "\n" + `{"moon":{}}`), secret,
		},
		"line 2: it is no record that this fedpost knows; if a newer fedpost wrote it": {
			sealed(`{"fedpostExport":{"version":1,"at":"2026-11-22T12:00:00Z"}}` + "\n" + `{"moon":{}}`), secret,
		},
	} {
		_, err := Open(bytes.NewReader(c.file), int64(len(c.file)), c.passphrase)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want that it says %q", err, says)
		}
	}
}

// TestAnExportOfVersion1IsRead: an export is kept for years, and fedpost that wrote it is gone.
func TestAnExportOfVersion1IsRead(t *testing.T) {
	file, err := os.ReadFile("testdata/version1.age")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(file), int64(len(file)), secret)
	if err != nil {
		t.Fatal(err)
	}
	report, err := f.Import(t.Context(), up(t).Installation, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Report{serverKind: {Added: 8}, blockKind: {Added: 1}, peerKind: {Added: 1}, followKind: {Added: 1}, webhookKind: {Added: 1}, keyKind: {Added: 2}}
	if !maps.Equal(report, want) {
		t.Errorf("imported %+v, want %+v", report, want)
	}
}

// TestContentThatNoExportHasIsRefused: whoever knows the passphrase can write a file, and
// errors quote no secret of it.
func TestContentThatNoExportHasIsRefused(t *testing.T) {
	const head, foot = `{"fedpostExport":{"version":1,"at":"2026-11-22T12:00:00Z"}}`, `{"end":{"lines":1}}`
	private, err := keys.GeneratePEM(keys.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	quoted := strings.ReplaceAll(private, "\n", `\n`)
	for what, lines := range map[string][]string{
		"nothing":               {},
		"no begin":              {`{"end":{"lines":0}}`},
		"no end":                {head},
		"another version":       {`{"fedpostExport":{"version":2}}`, `{"end":{"lines":0}}`},
		"two begins":            {head, head, foot},
		"a record too few":      {head, foot},
		"more after the end":    {head, `{"end":{"lines":0}}`, `{"end":{"lines":1}}`},
		"no JSON":               {head, "secret", foot},
		"null":                  {head, "null", foot},
		"a null":                {head, `{"key":null}`, foot},
		"two in a line":         {head, `{"key":{"id":"a"},"end":{"lines":1}}`, foot},
		"an unknown kind":       {head, `{"shoe":{}}`, foot},
		"an unknown field":      {head, `{"key":{"id":"` + frida + `","privateKeyPem":"` + quoted + `","owner":"x"}}`, foot},
		"a key's id":            {head, `{"key":{"id":"a\"b","privateKeyPem":"` + quoted + `"}}`, foot},
		"a key":                 {head, `{"key":{"id":"` + frida + `","privateKeyPem":"` + quoted[:60] + `"}}`, foot},
		"a server":              {head, `{"server":{"of":"bad.example","state":{"phase":"blocked"}}}`, foot},
		"a phase":               {head, `{"server":{"of":"host:bad.example","state":{"phase":"half-open"}}}`, foot},
		"a limit":               {head, `{"server":{"of":"host:bad.example","state":{"phase":"healthy"},"limit":{"rate":-1}}}`, foot},
		"a webhook's id":        {head, `{"webhook":{"id":"a b","url":"https://social.example"}}`, foot},
		"a webhook's secret":    {head, `{"webhook":{"id":"a","url":"https://social.example","secrets":[{"secret":"secret"}]}}`, foot},
		"a Sipher server's key": {head, `{"sipherServer":{"url":"https://peer.example","publicKey":"secret"}}`, foot},
		"a Sipher server":       {head, `{"sipherBlock":{"serverUrl":"peer.example"}}`, foot},
		"a follow":              {head, `{"follow":{"id":"f"}}`, foot},
		"a long line":           {head, strings.Repeat(" ", longestLine), foot},
	} {
		var file bytes.Buffer
		w, err := raw(&file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.to.Write([]byte(strings.Join(lines, "\n"))); err != nil {
			t.Fatal(err)
		}
		if err := w.to.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = Open(bytes.NewReader(file.Bytes()), int64(file.Len()), secret)
		if err == nil || strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), quoted[40:60]) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatDiffersIsReplacedOnRequestOnly, and nothing is written without the request.
func TestWhatDiffersIsReplacedOnRequestOnly(t *testing.T) {
	from, to := up(t).fill(), standIn(t).fill() // with keys and secrets of its own
	to.change(circuit.HostKey("bad.example"), func(s circuit.State) circuit.State { return s.Block(rules, "rude", start) })
	to.change(circuit.HostKey("rest.example"), func(s circuit.State) circuit.State { return s.Block(rules, "rude", start) })
	if _, err := to.limits.Set(t.Context(), "slow.example", 10, 1); err != nil {
		t.Fatal(err)
	}
	x := to.store.Sipher()
	to.must(x.SetKeys(t.Context(), "https://peer.example", pinned("E"), pinned("F"), start))
	to.must(x.Block(t.Context(), peers.Block{ServerURL: "https://sipher.evil.example", Reason: "rude", CreatedAt: start}))
	file, before := from.export(), to.content(to.export())

	counted := &writes{Table: to.table}
	_, err := to.opened(file).Import(t.Context(), to.open(counted), Options{})
	if !errors.Is(err, ErrDiffers) || counted.n != 0 {
		t.Fatalf("%d writes, %v", counted.n, err)
	}
	for _, name := range []string{"key " + frida, "key " + otto, "webhook mine", "host:bad.example", "host:rest.example", "host:slow.example", "Sipher server https://peer.example", "block of Sipher server"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%q does not name %s", err, name)
		}
	}
	sameContent(t, to.content(to.export()), before)

	report, err := to.opened(file).Import(t.Context(), to.Installation, Options{Replace: true})
	if err != nil || report[keyKind] != (Done{Replaced: 2}) || report[serverKind] != (Done{Same: 2, Replaced: 3, Left: 3}) || report[webhookKind] != (Done{Replaced: 1}) {
		t.Fatalf("the import reports %+v, error %v; want 2 keys, 3 servers and 1 webhook replaced", report, err)
	}
	got, want := to.content(to.export()), from.content(file)
	for name := range want {
		if name != "Sipher server https://peer.example" { // its times are of the replacement
			continue
		}
		got[name] = want[name]
	}
	sameContent(t, got, want)
}

// TestManyThatDifferAreNamedInPart.
func TestManyThatDifferAreNamedInPart(t *testing.T) {
	from, to := up(t), standIn(t)
	for n := range 25 {
		key := circuit.HostKey(fmt.Sprintf("s%d.example", n))
		from.change(key, func(s circuit.State) circuit.State { return s.Block(rules, "spam", start) })
		to.change(key, func(s circuit.State) circuit.State { return s.Block(rules, "rude", start) })
	}
	_, err := to.opened(from.export()).Import(t.Context(), to.Installation, Options{})
	if err == nil || strings.Count(err.Error(), "host:") != mostNamed || !strings.Contains(err.Error(), "and 15 more") {
		t.Errorf("the import says %v; want %d servers named and 15 more", err, mostNamed)
	}
}

// TestAnImportThatIsCutOffGoesOn: whichever call to the table fails, or was the last before a
// crash, the next import makes the rest.
func TestAnImportThatIsCutOffGoesOn(t *testing.T) {
	from := up(t).fill()
	file := from.export()
	want := from.content(file)
	for name, target := range map[string]func(*testing.T) made{"up": up, "AWS": standIn} {
		t.Run(name, func(t *testing.T) {
			faults.Sweeper{Thin: 1}.Sweep(t, func(t *testing.T, p *faults.Plan) {
				to := target(t)
				_, cut := to.opened(file).Import(t.Context(), to.open(faults.Table(p, "table", to.table)), Options{})
				if _, err := to.opened(file).Import(t.Context(), to.Installation, Options{}); err != nil {
					t.Fatalf("after %v: %v", cut, err)
				}
				sameContent(t, to.content(to.export()), want)
			})
		})
	}
}

// TestBlocksAndLimitsComeToServersThatAreKnown: what was learnt of a server here stays.
func TestBlocksAndLimitsComeToServersThatAreKnown(t *testing.T) {
	from, to := up(t).fill(), standIn(t)
	for _, host := range []string{"bad.example", "slow.example", "new.example", "rest.example"} {
		to.change(circuit.HostKey(host), func(s circuit.State) circuit.State {
			return s.InboxFault(rules, start).TookForm(rules, circuit.FormTaken{Refused: "usual", Form: "other", Shared: true, Until: start}, start)
		})
	}
	report, err := to.opened(from.export()).Import(t.Context(), to.Installation, Options{})
	if err != nil || report[serverKind] != (Done{Added: 7, Left: 1}) {
		t.Fatalf("the import reports %+v, error %v; want 7 servers added and 1 left", report, err)
	}
	states, err := to.store.Servers(t.Context(), circuit.HostKey("bad.example"), circuit.HostKey("slow.example"), circuit.HostKey("rest.example"))
	to.must(err)
	if s := states[circuit.HostKey("bad.example")]; s.Phase != circuit.Blocked || !s.Parked || !s.CheckAt.Equal(start) {
		t.Errorf("deliveries that may wait for inboxes of a blocked host are not looked for: %+v", s)
	}
	if s := states[circuit.HostKey("slow.example")]; s.Limited(start) != 60 || s.MaybeForm != "other" {
		t.Errorf("slow.example is %+v; want 60 a minute and form other", s)
	}
	if s := states[circuit.HostKey("rest.example")]; s.Decision(start) != circuit.Wait || s.Why != "moves house" {
		t.Errorf("rest.example is %+v; want that it waits as it moves house", s)
	}
}

// TestNoMoreWebhooksThanThereMayBe are imported.
func TestNoMoreWebhooksThanThereMayBe(t *testing.T) {
	from, to := up(t).fill(), standIn(t)
	for n := range webhook.MostWebhooks {
		w := webhook.Webhook{ID: fmt.Sprintf("w%d", n), URL: "https://social.example", CreatedAt: start}
		to.must(w.Replace(t.Context(), to.sealer, webhook.NewSecret(), start))
		_, err := to.store.SaveWebhook(t.Context(), w)
		to.must(err)
	}
	counted := &writes{Table: to.table}
	if _, err := to.opened(from.export()).Import(t.Context(), to.open(counted), Options{Replace: true}); !errors.Is(err, webhook.ErrTooMany) || counted.n != 0 {
		t.Errorf("%d writes, %v", counted.n, err)
	}
}

// TestAPauseThatIsOverIsNotImported.
func TestAPauseThatIsOverIsNotImported(t *testing.T) {
	from, to := up(t).fill(), standIn(t)
	late := New(to.table, to.sealer, func() time.Time { return start.Add(2 * time.Hour) })
	if _, err := to.opened(from.export()).Import(t.Context(), late, Options{}); err != nil {
		t.Fatal(err)
	}
	s, err := circuit.Load(t.Context(), to.store, circuit.HostKey("later.example"))
	if err != nil || s.Phase != circuit.Healthy {
		t.Errorf("later.example is %+v, error %v; want it healthy", s, err)
	}
}

// TestEveryFieldOfAKeyMovesOrIsNamedHere: whoever adds a field has to decide.
func TestEveryFieldOfAKeyMovesOrIsNamedHere(t *testing.T) {
	handled := map[reflect.Type][]string{
		reflect.TypeFor[keys.Sealed](): {"ID", "Type", "PublicPEM", "Private", "CreatedAt"}, // Type and PublicPEM follow from Private
		// Cursor, Anew and Version are of the installation.
		reflect.TypeFor[webhook.Webhook](): {"ID", "URL", "Types", "Batch", "Secrets", "CreatedAt", "Cursor", "FailingSince", "LastError", "DisabledAt", "Anew", "Version"},
		// Stranger says that it does not move; health and the next try begin anew.
		reflect.TypeFor[peers.Server](): {
			"URL", "PublicKey", "EncryptionKey", "LastSeen", "CreatedAt", "UpdatedAt", "IsHealthy", "Attempts", "Exhausted", "Reason", "Stranger", "NextTryAt", "Unannounced",
		},
		// Of deliveries, which stay: Slow, SlowAt, Vain, VainSince, Window, Doubt, Trials, Tried, Sole, Took, TookAt, Lapsed, Ramp, Parked, KeyID,
		// ReviveUntil, Sweep.
		reflect.TypeFor[circuit.State](): {
			"Key", "Phase", "Since", "Until", "Why", "Reason", "LastEvent", "Throttles", "Slow", "SlowAt", "Vain", "VainSince", "Unproven", "Doubt", "DoubtAt", "DownSince", "Streak", "Window", "Checks", "Trials",
			"Tried", "Sole", "Took", "TookAt", "Lapsed", "Ramp", "CheckAt", "Parked", "ReviveUntil", "Sweep", "InboxesUntil", "Form", "FormUntil", "MaybeForm", "MaybeFormBy", "MaybeFormAt", "Forms", "Rate", "RateLearnt",
			"RateUntil", "Version", "Forget", "KeyID",
		},
	}
	for typ, names := range handled {
		for i := range typ.NumField() {
			if name := typ.Field(i).Name; !slices.Contains(names, name) {
				t.Errorf("%s.%s: does it move? Say so here, and do it", typ, name)
			}
		}
	}
}

// TestOnlyThisPackageRevealsKeys: no server does, nor the API.
func TestOnlyThisPackageRevealsKeys(t *testing.T) {
	found := map[string]bool{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Reveal" {
				found[filepath.Base(filepath.Dir(path))] = true
			}
			return true
		})
		return nil
	})
	if got := slices.Collect(maps.Keys(found)); err != nil || !slices.Equal(got, []string{"move"}) {
		t.Errorf("Reveal is called by %q, %v", got, err)
	}
}
