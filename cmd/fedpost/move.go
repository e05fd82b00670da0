package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda"
	"fedpost/internal/app/local"
	"fedpost/internal/app/move"
	"fedpost/internal/engine/postgres"
	"fedpost/internal/engine/sqlite"
	porttable "fedpost/internal/engine/table"
	"fedpost/internal/keys"
)

// records are the flags of commands that read or write the records of a fedpost themselves:
// those on AWS or PostgreSQL where settings ask for these, as with fedpost up, else a data folder.
type records struct {
	folder
	SealingKey     string `help:"File of the sealing key, if it is a credential of the service. Default: sealing.key in the data folder." type:"path" placeholder:"FILE"`
	PassphraseFile string `help:"File with the passphrase. Default: ask on the terminal." type:"path" placeholder:"FILE"`
	JSON           bool   `help:"Print the counts as JSON."`
}

// opened is an installation that is open.
type opened struct {
	move.Installation
	name  string // for people
	close func() error
}

// access is what an installation is opened for.
type access int

const (
	toRead    access = iota // beside a fedpost up that may run
	toCompare               // the same, and there may be nothing yet
	toWrite
)

// open opens the installation.
func (r records) open(ctx context.Context, a access, log *slog.Logger) (opened, error) {
	var c struct{ Database config.Database }
	if err := config.Load(&c); err != nil {
		return opened{}, err
	}
	because := awsSettings()
	if err := oneEngine(c.Database, because); err != nil {
		return opened{}, err
	}
	if c.Database.URL != "" {
		return r.onDatabase(ctx, c.Database, a, log)
	}
	if len(because) > 0 {
		p, err := onTable(ctx, log)
		if err != nil {
			return opened{}, fmt.Errorf("cannot reach the installation on AWS, as asked for by %s (unset, --data names the folder): %w", strings.Join(because, ", "), err)
		}
		return p, nil
	}
	database, sealing := filepath.Join(r.Data, local.Database), cmp.Or(r.SealingKey, sealingKey(r.Data))
	engine, err := r.engine(ctx, database, a)
	if a == toCompare && errors.Is(err, fs.ErrNotExist) {
		engine, err = sqlite.Open(ctx, sqlite.Memory, sqlite.Options{})
	}
	if err != nil {
		return opened{}, err
	}
	return sealed(ctx, engine.Table(), keys.SealingKey{File: sealing}, a, "SQLite, "+database, engine.Close, log)
}

// onDatabase is the installation on PostgreSQL; fedpost up may run on it.
func (r records) onDatabase(ctx context.Context, d config.Database, a access, log *slog.Logger) (opened, error) {
	engine, err := postgres.Open(ctx, d.URL, postgres.Options{Schema: d.Schema, AsIs: true, Log: log})
	if err != nil {
		return opened{}, err
	}
	key := keys.SealingKey{File: r.SealingKey}
	if r.SealingKey == "" {
		key = keys.SealingKey{File: sealingKey(r.Data), Given: d.Sealing()}
	}
	return sealed(ctx, engine.Table(), key, a, "PostgreSQL, "+engine.Name(), engine.Close, log)
}

// sealed is an installation without KMS. It closes the engine if the key does
// not open what is there.
func sealed(ctx context.Context, t porttable.Table, key keys.SealingKey, a access, name string, closing func() error, log *slog.Logger) (opened, error) {
	ports := app.Ports{Table: t, Log: log}
	seal := ports.OpenIn
	if a == toWrite {
		seal = ports.SealIn
	}
	if err := seal(ctx, key); err != nil {
		return opened{}, errors.Join(err, closing())
	}
	return opened{move.New(ports.Table, ports.Sealer, time.Now), name, closing}, nil
}

func (r records) engine(ctx context.Context, database string, a access) (*sqlite.Engine, error) {
	if a != toWrite {
		return sqlite.OpenToRead(ctx, database)
	}
	var c struct{ Queueing config.Queueing }
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return sqlite.Open(ctx, database, sqlite.Options{Queues: queues(), Type: c.Queueing.Kind()})
}

// onTable is the installation on AWS. The queues are not needed.
func onTable(ctx context.Context, log *slog.Logger) (opened, error) {
	var c struct {
		Table   config.Table
		Sealing config.Sealing
	}
	if err := config.Load(&c); err != nil {
		return opened{}, err
	}
	cfg, err := awsConfig(ctx, "")
	if err != nil {
		return opened{}, err
	}
	if err := hasCredentials(ctx, cfg); err != nil {
		return opened{}, err
	}
	ports, err := lambda.Records(c.Table, c.Sealing, cfg, log)
	if err != nil {
		return opened{}, err
	}
	name := fmt.Sprintf("AWS, table %s in %s", c.Table.Name, cfg.Region)
	return opened{move.New(ports.Table, ports.Sealer, time.Now), name, func() error { return nil }}, nil
}

// exportCommand writes an export.
type exportCommand struct {
	records
	File string `arg:"" help:"New file to write, such as fedpost.age. It has all private keys, encrypted with the passphrase (age-encryption.org)." type:"path"`
}

// Run writes, also while fedpost up runs on the folder.
func (c exportCommand) Run(ctx context.Context, out io.Writer, log *slog.Logger) (err error) {
	from, err := c.open(ctx, toRead, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()
	secret, err := newPassphrase(ctx, c.PassphraseFile)
	if err != nil {
		return err
	}
	ctx, stop := shown(ctx)
	var counts move.Counts
	err = local.WriteWhole(c.File, func(to *os.File) (err error) {
		counts, err = move.Export(ctx, from.Installation, to, secret, passphraseWork)
		return err
	})
	stop()
	if err != nil {
		return fmt.Errorf("export to %s: %w", c.File, err)
	}
	if c.JSON {
		return printJSON(out, counts)
	}
	_, err = fmt.Fprintf(out, "%s is an export of %s: %s.\nWhoever has the file and its passphrase can sign as your actors. What is not in it: deliveries and their records, settings.\n", c.File, from.name, counts)
	return err
}

// passphraseWork is the cost of each guess at a passphrase; 0: the library's. Tests, which
// have no time, make it cheap.
var passphraseWork = 0

// importCommand takes over an export.
type importCommand struct {
	records
	File    string `arg:"" help:"File that fedpost export has written." type:"path"`
	Replace bool   `help:"Replace keys, webhooks and settings of servers that differ from the file."`
	DryRun  bool   `help:"Print what would be done, and write nothing."`
}

// Run imports. A data folder must not be in use; on AWS the functions may run.
func (c importCommand) Run(ctx context.Context, out io.Writer, log *slog.Logger) (err error) {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	secret, err := passphrase(ctx, c.PassphraseFile, "Passphrase of the export: ")
	if err != nil {
		return err
	}
	export, err := move.Open(file, info.Size(), secret)
	if err != nil {
		return fmt.Errorf("import %s: %w", c.File, err)
	}
	a := toWrite
	if c.DryRun {
		a = toCompare
	}
	to, err := c.open(ctx, a, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	ctx, stop := shown(ctx)
	report, err := export.Import(ctx, to.Installation, move.Options{Replace: c.Replace, DryRun: c.DryRun})
	stop()
	switch {
	case errors.Is(err, move.ErrDiffers):
		return fmt.Errorf("import %s into %s: %w; --replace overwrites what differs", c.File, to.name, err)
	case err != nil:
		return fmt.Errorf("import %s into %s: %w", c.File, to.name, err)
	case c.JSON:
		return printJSON(out, report)
	}
	done := "imported into"
	if c.DryRun {
		done = "not imported yet, would go into"
	}
	if _, err := fmt.Fprintf(out, "%s %s %s\n", c.File, done, to.name); err != nil {
		return err
	}
	return showReport(out, report)
}

func showReport(out io.Writer, r move.Report) error {
	rows := r.Rows()
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "The file has nothing to import.")
		return err
	}
	return table(out, []string{"", "ADDED", "THERE ALREADY", "REPLACED", "LEFT, KNOWN HERE"}, rows)
}

// leastPassphrase is how many characters a new passphrase has at least: the file that it
// protects may be copied, and be guessed at for years.
const leastPassphrase = 12

// mostPassphrase is how many bytes of a passphrase file are read.
const mostPassphrase = 4 << 10

// newPassphrase reads a passphrase for a file that is to be written.
func newPassphrase(ctx context.Context, file string) (string, error) {
	secret, err := passphrase(ctx, file, "Passphrase to encrypt the export with: ")
	if err != nil {
		return "", err
	}
	if n := len([]rune(secret)); n < leastPassphrase {
		return "", fmt.Errorf("the passphrase has %d characters: take %d or more, such as five random words", n, leastPassphrase)
	}
	if file == "" {
		again, err := passphrase(ctx, "", "The same once more: ")
		if err != nil {
			return "", err
		}
		if again != secret {
			return "", errors.New("the two passphrases differ: nothing was written")
		}
	}
	return secret, nil
}

// passphrase reads a passphrase from a file, without the line break at its end, or from the
// terminal, which does not show it.
func passphrase(ctx context.Context, file, prompt string) (string, error) {
	var text []byte
	var err error
	if file != "" {
		text, err = readPassphrase(file)
	} else {
		text, err = askTerminal(ctx, prompt)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("the passphrase is empty")
	}
	return secret, nil
}

func readPassphrase(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the passphrase: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostPassphrase+1))
	if err != nil {
		return nil, fmt.Errorf("read the passphrase: %w", err)
	}
	if len(text) > mostPassphrase {
		return nil, fmt.Errorf("%s has more than %d bytes: it is no passphrase", file, mostPassphrase)
	}
	return text, nil
}

// askTerminal asks on the terminal, and leaves it as it was, also if it is interrupted.
func askTerminal(ctx context.Context, prompt string) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, mistaken("there is no terminal to ask for the passphrase: give --passphrase-file")
	}
	fmt.Fprint(os.Stderr, prompt)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		fmt.Fprintln(os.Stderr)
		if a.err != nil {
			return nil, fmt.Errorf("read the passphrase: %w", a.err)
		}
		return a.text, nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return nil, errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}
