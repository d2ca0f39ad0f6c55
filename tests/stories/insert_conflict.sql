-- ON CONFLICT: what is inserted, what is updated, what is neither, and what is inserted in vain.

CREATE TABLE t (id int PRIMARY KEY, n int, v text);
INSERT INTO t VALUES (1, 1, 'plain');
INSERT INTO t VALUES (1, 2, 'ignored') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (2, 2, 'speculative') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 3, 'x'), (3, 3, 'y'), (2, 9, 'z') ON CONFLICT (id) DO UPDATE SET n = excluded.n, v = t.v || excluded.v;
INSERT INTO t VALUES (3, 3, 'y') ON CONFLICT (id) DO UPDATE SET n = 5 WHERE t.n = 4;
INSERT INTO t VALUES (4, 4, repeat('long and plain ', 300)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
ALTER TABLE t ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO t VALUES (5, 5, repeat('five', 900)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (5, 6, repeat('FIVE', 900)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (5, 7, repeat('five', 900)) ON CONFLICT (id) DO UPDATE SET id = 50;

BEGIN;
INSERT INTO t VALUES (6, 6, 'six') ON CONFLICT DO NOTHING;
SAVEPOINT s;
INSERT INTO t VALUES (7, 7, 'never') ON CONFLICT DO NOTHING;
ROLLBACK TO s;
INSERT INTO t VALUES (7, 7, 'seven') ON CONFLICT DO NOTHING;
COMMIT;
BEGIN;
INSERT INTO t VALUES (8, 8, 'never') ON CONFLICT DO NOTHING;
ROLLBACK;

-- The index on gate() comes before the unique one, so an insert stops at the gate with its row written and not yet unique.
CREATE TABLE race (key int, v text);
ALTER TABLE race ALTER COLUMN v SET STORAGE EXTERNAL;
CREATE FUNCTION gate(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN $1; END $$;
CREATE INDEX race_gate ON race (gate(key));
CREATE UNIQUE INDEX race_key ON race (key);
ALTER TABLE race REPLICA IDENTITY FULL;

SELECT pg_advisory_lock(1);
-- session loser waits
INSERT INTO race VALUES (1, 'loser') ON CONFLICT (key) DO UPDATE SET v = race.v || ', then ' || excluded.v;
-- session main
INSERT INTO race VALUES (1, 'winner');
SELECT pg_advisory_unlock(1);
-- session loser
SELECT 1;

-- it loses with a long value, within a transaction that goes on
BEGIN;
INSERT INTO race VALUES (10, 'before the race');
COMMIT;
BEGIN;
-- session main
SELECT pg_advisory_lock(1);
-- session loser waits
INSERT INTO race VALUES (2, repeat('loser', 700)) ON CONFLICT (key) DO NOTHING;
INSERT INTO t VALUES (20, 20, repeat('after the race', 200));
COMMIT;
-- session main
INSERT INTO race VALUES (2, 'winner');
SELECT pg_advisory_unlock(1);
-- session loser
SELECT 1;

-- it wins after all, others having written in between
-- session main
SELECT pg_advisory_lock(1);
-- session slow waits
INSERT INTO race VALUES (3, repeat('slow', 700)) ON CONFLICT (key) DO NOTHING;
-- session main
INSERT INTO race VALUES (4, repeat('between', 400));
CHECKPOINT;
SELECT pg_advisory_unlock(1);
-- session slow
INSERT INTO race VALUES (5, 'slow, again') ON CONFLICT DO NOTHING;
