-- What an application asks for in its own transactions. Its role needs no more than
--   GRANT USAGE ON SCHEMA fedpost TO app;
--   GRANT INSERT (request, deduplication_key) ON fedpost.outbox TO app;
-- There is no trigger that notifies: NOTIFY takes a lock of the whole server until the
-- application's transaction has ended. An application that cannot wait for a second notifies
-- itself.
CREATE TABLE fedpost.outbox (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  created    timestamptz NOT NULL DEFAULT clock_timestamp(),
  request    text NOT NULL CONSTRAINT outbox_request_size CHECK (octet_length(request) <= 6291456),
  deduplication_key text CONSTRAINT outbox_key_size CHECK (octet_length(deduplication_key) <= 8192),
  tries      int NOT NULL DEFAULT 0,
  activity   text, -- once it is accepted
  problem    text, -- once it is refused
  ended      timestamptz -- NULL: it waits
);
CREATE INDEX outbox_waiting ON fedpost.outbox (id) WHERE ended IS NULL;
CREATE INDEX outbox_refused ON fedpost.outbox (id) WHERE problem IS NOT NULL;
CREATE INDEX outbox_accepted ON fedpost.outbox (ended) WHERE activity IS NOT NULL;

ALTER TABLE fedpost.outbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
