package sqlite

import (
	"errors"
	"fmt"
	"strings"
)

// schemaVersion is kept in the file (PRAGMA user_version), so that an older
// fedpost refuses the file of a newer one.
const schemaVersion = 2

// All times are Unix times: in queues in milliseconds, as on SQS; in the table in
// nanoseconds, as callers pass them.
//
// Bodies have a table of their own because SQLite rewrites a whole row when one
// column changes, and every receive changes a message's row.
const schema = `
CREATE TABLE message (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT, -- order of sending; never used twice
  queue      TEXT    NOT NULL,
  source     TEXT    NOT NULL DEFAULT '', -- of a dead letter: the queue it came from
  fifo       INTEGER NOT NULL,
  grp        TEXT    NOT NULL,
  dedup      TEXT    NOT NULL,
  sent       INTEGER NOT NULL,
  visible    INTEGER NOT NULL, -- when it is or was next visible
  receives   INTEGER NOT NULL DEFAULT 0,
  received   INTEGER NOT NULL DEFAULT 0 -- when it was last received
);
CREATE INDEX message_visible ON message (queue, visible, receives);
CREATE INDEX message_sent ON message (queue, sent);
CREATE INDEX message_order ON message (queue, grp, seq) WHERE fifo = 1;
CREATE INDEX message_group ON message (queue, grp, visible) WHERE fifo = 1;

CREATE TABLE body (
  seq        INTEGER PRIMARY KEY,
  body       TEXT NOT NULL,
  attributes TEXT NOT NULL -- JSON, empty if there are none
);

-- The groups of FIFO queues that have messages. A group is free when its first
-- message is visible; keeping that here spares a receive from looking for it in
-- every group.
CREATE TABLE fifo_group (
  queue      TEXT    NOT NULL,
  grp        TEXT    NOT NULL,
  free       INTEGER NOT NULL,
  PRIMARY KEY (queue, grp)
) WITHOUT ROWID;
CREATE INDEX fifo_group_free ON fifo_group (queue, free);

-- Deduplication ids outlive their messages.
CREATE TABLE dedup (
  queue      TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  until      INTEGER NOT NULL,
  PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX dedup_until ON dedup (until);

CREATE TABLE item (
  pk         TEXT    NOT NULL,
  sk         TEXT    NOT NULL,
  fence      TEXT    NOT NULL,
  data       BLOB    NOT NULL,
  expires    INTEGER, -- NULL: never
  due_shard  TEXT,    -- NULL: not in the due index
  due_at     INTEGER
);
CREATE UNIQUE INDEX item_key ON item (pk, sk);
CREATE INDEX item_due ON item (due_shard, due_at) WHERE due_shard IS NOT NULL;
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL;
`

// migrations lead from each version to the next, from version 1 on.
var migrations = []string{
	// The oldest message of a queue, and those past their retention, are found without
	// reading the whole queue.
	`CREATE INDEX message_sent ON message (queue, sent);`,
}

// migrate brings the file to schemaVersion, in one transaction.
func migrate(s *session) error {
	var version int
	if _, err := s.one("PRAGMA user_version", nil, &version); err != nil {
		return fmt.Errorf("read the version of the schema: %w", err)
	}
	var change string
	switch {
	case version == schemaVersion:
		return nil
	case version > schemaVersion:
		return newer(version)
	case version == 0:
		change = schema
	default:
		change = strings.Join(migrations[version-1:], "\n")
	}
	if err := s.script(fmt.Sprintf("BEGIN IMMEDIATE; %s PRAGMA user_version = %d; COMMIT;", change, schemaVersion)); err != nil {
		return fmt.Errorf("bring the file from schema %d to %d: %w", version, schemaVersion, err)
	}
	return nil
}

var ErrNewer = errors.New("the file was written by a newer fedpost")

func newer(version int) error {
	return fmt.Errorf("%w (schema %d, this one knows %d): use that version, or another data folder", ErrNewer, version, schemaVersion)
}
