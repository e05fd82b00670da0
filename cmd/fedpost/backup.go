package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpost/internal/app/config"
	"fedpost/internal/app/local"
	"fedpost/internal/app/progress"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
)

// folder is the flag of commands that read or write a data folder.
type folder struct {
	Data string `help:"Data folder of fedpost up." default:"./data" type:"path"`
}

// onDatabase is the error of commands for data folders where fedpost up runs on PostgreSQL.
func onDatabase() error {
	if os.Getenv(config.DatabaseURL) == "" {
		return nil
	}
	return mistaken("this is for data folders, and " + config.DatabaseURL + " is set: save and check the database with PostgreSQL's own pg_dump, base backups and pg_amcheck, and keep a copy of sealing.key (docs/running.md)")
}

// backupCommand saves a data folder.
type backupCommand struct {
	folder
	File       string `arg:"" help:"New file to write, such as fedpost-2026-11-22.tar. It has the sealing key: keep it secret." type:"path"`
	SealingKey string `help:"File of the sealing key, if it is a credential of the service. Default: sealing.key in the data folder." type:"existingfile" placeholder:"FILE"`
}

// Run saves, also while fedpost up runs on the folder.
func (c backupCommand) Run(ctx context.Context, out io.Writer) error {
	if err := onDatabase(); err != nil {
		return err
	}
	ctx, stop := shown(ctx)
	err := local.Backup(ctx, c.Data, cmp.Or(c.SealingKey, sealingKey(c.Data)), c.File)
	stop()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is a backup of %s, with its sealing key\n", c.File, c.Data)
	return err
}

// restoreCommand makes a data folder from a backup.
type restoreCommand struct {
	folder
	File string `arg:"" help:"Backup that fedpost backup has written." type:"path"`
}

// Run restores into an empty or missing folder.
func (c restoreCommand) Run(ctx context.Context, out io.Writer) error {
	if err := onDatabase(); err != nil {
		return err
	}
	ctx, stop := shown(ctx)
	found, err := local.Restore(ctx, c.File, c.Data)
	stop()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s is restored. What was unsent when the backup was made is sent when fedpost up runs on it, even if it was sent meanwhile.\n", c.Data); err != nil {
		return err
	}
	return showContents(out, found)
}

// checkCommand checks a data folder, or a backup.
type checkCommand struct {
	folder
	File       string `arg:"" optional:"" help:"Backup to check instead of a data folder. It is unpacked below TMPDIR." type:"path"`
	SealingKey string `help:"File of the sealing key, if it is a credential of the service. Default: sealing.key in the data folder." type:"existingfile" placeholder:"FILE"`
	JSON       bool   `help:"Print what was found as JSON."`
}

// Run checks, also while fedpost up runs on the folder.
func (c checkCommand) Run(ctx context.Context, out io.Writer) error {
	if c.File != "" {
		return c.backup(ctx, out)
	}
	if err := onDatabase(); err != nil {
		return err
	}
	database := filepath.Join(c.Data, local.Database)
	ctx, stop := shown(ctx)
	progress.Begin(ctx, "checking "+database, nil)
	found, err := sqlite.Inspect(ctx, database)
	stop()
	if err != nil {
		return err
	}
	switch err := local.CheckSealingKey(ctx, database, cmp.Or(c.SealingKey, sealingKey(c.Data))); {
	case errors.Is(err, keys.ErrSealingKeyGone), errors.Is(err, keys.ErrSealingKeyOther):
		found.Damage = append(found.Damage, err.Error())
	case err != nil && len(found.Damage) == 0:
		return err
	}
	if c.JSON {
		err = printJSON(out, found)
	} else {
		err = showFound(out, found)
	}
	return cmp.Or(err, found.Err())
}

func (c checkCommand) backup(ctx context.Context, out io.Writer) error {
	if c.SealingKey != "" {
		return mistaken("--sealing-key is for a data folder; a backup has its own sealing key")
	}
	ctx, stop := shown(ctx)
	found, err := local.CheckBackup(ctx, c.File)
	stop()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(out, found)
	}
	return showContents(out, found)
}

func showContents(out io.Writer, c local.Contents) error {
	sums := "right"
	if !c.Verified {
		sums = "none: an earlier fedpost wrote the backup, and whether a byte of it has changed was not verified"
	}
	return showFound(out, c.Found, "checksums", sums)
}

func showFound(out io.Writer, f sqlite.Found, more ...string) error {
	var queues []string
	for _, name := range slices.Sorted(maps.Keys(f.Messages)) {
		queues = append(queues, fmt.Sprintf("%d %s", f.Messages[name], name))
	}
	pairs := []string{
		"schema", strconv.Itoa(f.Schema), "bytes", strconv.FormatInt(f.Bytes, 10), "items", strconv.Itoa(f.Items),
		"messages", cmp.Or(strings.Join(queues, ", "), "none"),
	}
	pairs = append(pairs, more...)
	for _, d := range f.Damage {
		pairs = append(pairs, "DAMAGE", d)
	}
	return facts(out, pairs...)
}
