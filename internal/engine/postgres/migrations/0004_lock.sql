-- Locks of processes, as rows that they lock: every role of the database may take advisory locks.
CREATE TABLE fedpost.lock (
  name       text COLLATE "C" NOT NULL PRIMARY KEY
);
INSERT INTO fedpost.lock (name) VALUES ('outbox');
