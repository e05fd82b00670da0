-- Names the time since the server last crashed, or became the primary. A crash empties a table
-- that is unlogged, and a standby has none of its rows: then the next row has another id. After
-- a crash the server gives the numbers of transactions again that it has lost.
CREATE UNLOGGED TABLE fedpost.epoch (
  one        boolean PRIMARY KEY DEFAULT true CHECK (one),
  id         uuid NOT NULL DEFAULT gen_random_uuid()
);
