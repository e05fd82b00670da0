-- The schema of the first version, as it stood in files before migrations.
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
PRAGMA user_version = 1;
