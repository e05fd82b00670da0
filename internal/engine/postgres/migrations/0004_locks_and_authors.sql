-- Locks of processes, as rows that they lock: every role of the database may take advisory locks.
CREATE TABLE fedpost.lock (
  name       text COLLATE "C" NOT NULL PRIMARY KEY
);
INSERT INTO fedpost.lock (name) VALUES ('outbox');

-- Who inserted a row: a role may see what became of its own rows, with
--   GRANT SELECT (id) ON fedpost.outbox TO app; -- for INSERT … RETURNING id
--   GRANT SELECT ON fedpost.outbox_own TO app;
ALTER TABLE fedpost.outbox ADD COLUMN author name NOT NULL DEFAULT current_user;
CREATE VIEW fedpost.outbox_own WITH (security_barrier) AS
SELECT id, created, deduplication_key, activity, problem, ended,
  CASE WHEN activity IS NOT NULL THEN 'accepted' WHEN problem IS NOT NULL THEN 'refused' ELSE 'waiting' END AS state
FROM fedpost.outbox WHERE author = current_user;
