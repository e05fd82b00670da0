-- Strings that come from outside are bytea: the order of bytes is the order of the table's
-- keys whatever the database's collation and encoding, and a text could not hold U+0000.
--
-- Times of queues are Unix times in milliseconds, by the clock of this server. Times of the
-- table are in nanoseconds, as callers pass them.
--
-- There are no foreign keys: they lock the row that they point to on each change.

CREATE SEQUENCE fedpost.message_seq; -- order of sending; no number is used twice

-- What does not change of a message. It is apart from the leases, so that a receive writes a
-- few bytes and not the body again.
CREATE TABLE fedpost.message (
  seq        bigint NOT NULL PRIMARY KEY,
  grp        bytea, -- NULL: none
  dedup      bytea,
  body       bytea  NOT NULL,
  attributes bytea  -- JSON, NULL if there are none
);
-- Bodies are compressed already where that saves anything. One that fits on a page stays in its
-- row: the table for long values has an index of its own to keep.
ALTER TABLE fedpost.message ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE fedpost.message SET (toast_tuple_target = 8160);

-- The messages of standard queues: who may receive them, and when.
CREATE TABLE fedpost.lease (
  queue      text COLLATE "C" NOT NULL,
  seq        bigint NOT NULL,
  source     text COLLATE "C", -- of a dead letter: the queue it came from
  sent       bigint NOT NULL,
  visible    bigint NOT NULL, -- when it is or was next visible
  received   bigint NOT NULL DEFAULT 0, -- when it was last received
  receives   int    NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, seq)
);
CREATE INDEX lease_visible ON fedpost.lease (queue, visible);

-- The messages of FIFO queues. No index names a column that a receive changes, so a receive
-- changes rows in place (HOT).
CREATE TABLE fedpost.fifo_lease (
  queue      text COLLATE "C" NOT NULL,
  seq        bigint NOT NULL,
  source     text COLLATE "C",
  grp        bytea  NOT NULL,
  sent       bigint NOT NULL,
  visible    bigint NOT NULL,
  received   bigint NOT NULL DEFAULT 0,
  receives   int    NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, seq)
) WITH (fillfactor = 70);
CREATE INDEX fifo_lease_group ON fedpost.fifo_lease (queue, grp, seq);

-- The groups of FIFO queues that have messages. Whoever changes what a group has or holds
-- locks its row first. A group is free when its first message is visible; a receive finds
-- free groups here and never looks at the others.
CREATE TABLE fedpost.fifo_group (
  queue      text COLLATE "C" NOT NULL,
  grp        bytea  NOT NULL,
  free       bigint NOT NULL,
  PRIMARY KEY (queue, grp)
);
CREATE INDEX fifo_group_free ON fedpost.fifo_group (queue, free);

-- Deduplication ids outlive their messages.
CREATE TABLE fedpost.dedup (
  queue      text COLLATE "C" NOT NULL,
  id         bytea  NOT NULL,
  until      bigint NOT NULL,
  PRIMARY KEY (queue, id)
);
CREATE INDEX dedup_until ON fedpost.dedup (until);

CREATE TABLE fedpost.item (
  pk         bytea NOT NULL, -- of a long key: its beginning and a digest, as an index holds 2,700 bytes
  sk         bytea NOT NULL,
  long_pk    bytea, -- the whole of a long key
  fence      bytea NOT NULL,
  data       bytea NOT NULL,
  expires    bigint, -- NULL: never
  due_shard  bytea,  -- NULL: not in the due index
  due_at     bigint,
  PRIMARY KEY (pk, sk)
) WITH (fillfactor = 80);
ALTER TABLE fedpost.item ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE fedpost.item SET (toast_tuple_target = 8160);
CREATE INDEX item_due ON fedpost.item (due_shard, due_at) WHERE due_shard IS NOT NULL;
CREATE INDEX item_expires ON fedpost.item (expires) WHERE expires IS NOT NULL;

-- Work that one process does at a time: who does it, and until when unless it says so again.
CREATE TABLE fedpost.duty (
  name       text COLLATE "C" NOT NULL PRIMARY KEY,
  holder     text   NOT NULL,
  until      bigint NOT NULL
) WITH (fillfactor = 50);

-- Rows of these tables live for seconds. Autovacuum's defaults wait until a fifth of a table
-- is dead, and rest in between: the indexes would grow for hours behind a backlog.
ALTER TABLE fedpost.message SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_scale_factor = 0.01,
  toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE fedpost.lease SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE fedpost.fifo_lease SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE fedpost.fifo_group SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE fedpost.dedup SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE fedpost.item SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
