package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedpost/internal/app/local"
	"fedpost/internal/engine/sqlite"
	"fedpost/internal/keys"
)

// folder is the flag of commands that work on a data folder themselves.
type folder struct {
	Data string `help:"Data folder of fedpost up." default:"./data" type:"path"`
}

// backupCommand saves a data folder.
type backupCommand struct {
	folder
	File       string `arg:"" help:"New file to write, such as fedpost-2026-11-22.tar. It holds the sealing key: keep it as secret as the folder." type:"path"`
	SealingKey string `help:"File of the sealing key, where it is a credential of the service. Default: sealing.key in the data folder." type:"existingfile" placeholder:"FILE"`
}

// Run saves, also while fedpost up runs on the folder.
func (c backupCommand) Run(ctx context.Context, out io.Writer) error {
	if err := local.Backup(ctx, c.Data, cmp.Or(c.SealingKey, sealingKey(c.Data)), c.File); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s is a backup of %s, with its sealing key\n", c.File, c.Data)
	return err
}

// restoreCommand makes a data folder from a backup.
type restoreCommand struct {
	folder
	File string `arg:"" help:"Backup that fedpost backup has written." type:"path"`
}

// Run restores into an empty or missing folder.
func (c restoreCommand) Run(ctx context.Context, out io.Writer) error {
	found, err := local.Restore(ctx, c.File, c.Data)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s is restored. What was still to be sent when the backup was made is sent from there, also if it has been sent since.\n", c.Data); err != nil {
		return err
	}
	return showContents(out, found)
}

// checkCommand checks a data folder, or a backup.
type checkCommand struct {
	folder
	File       string `arg:"" optional:"" help:"Backup to check in place of a data folder. It is unpacked among temporary files (TMPDIR)." type:"path"`
	SealingKey string `help:"File of the sealing key, where it is a credential of the service. Default: sealing.key in the data folder." type:"existingfile" placeholder:"FILE"`
	JSON       bool   `help:"Print what was found as JSON."`
}

// Run checks, also while fedpost up runs on the folder.
func (c checkCommand) Run(ctx context.Context, out io.Writer) error {
	if c.File != "" {
		return c.backup(ctx, out)
	}
	database := filepath.Join(c.Data, local.Database)
	found, err := sqlite.Inspect(ctx, database)
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
		return mistaken("--sealing-key is of a data folder; a backup has its own")
	}
	found, err := local.CheckBackup(ctx, c.File)
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
