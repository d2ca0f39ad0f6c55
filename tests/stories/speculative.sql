-- ON CONFLICT inserts first and asks later. Usually the row is confirmed; if somebody else was quicker to the same key, it
-- is taken back ("super-deleted") and the conflict is dealt with. Neither trace may be seen.

CREATE TABLE t (id int PRIMARY KEY, v text);

INSERT INTO t VALUES (1, 'new') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'there already') ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (1, 'updates') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO t VALUES (2, 'a'), (3, 'b'), (1, 'c') ON CONFLICT (id) DO UPDATE SET v = t.v || excluded.v;
INSERT INTO t VALUES (1, 'moves') ON CONFLICT (id) DO UPDATE SET id = 100;
INSERT INTO t VALUES (2, 'x') ON CONFLICT (id) DO UPDATE SET v = 'never' WHERE false;

BEGIN;
INSERT INTO t VALUES (4, 'd') ON CONFLICT DO NOTHING;
SAVEPOINT s;
INSERT INTO t VALUES (5, 'lost') ON CONFLICT DO NOTHING;
ROLLBACK TO s;
INSERT INTO t VALUES (5, repeat(md5('large'), 300)) ON CONFLICT DO NOTHING;
INSERT INTO t VALUES (4, 'dd') ON CONFLICT (id) DO UPDATE SET v = excluded.v;
COMMIT;

-- The index asks `gate` for its key, once to look and once to insert. A session that sets story.gate is held up before the second,
-- with its row already in the table: time for another to insert the same key.
CREATE FUNCTION gate(key text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
    calls int := coalesce(nullif(current_setting('story.gate', true), ''), '0');
BEGIN
    PERFORM set_config('story.gate', (calls - 1)::text, false);
    IF calls = 1 THEN
        PERFORM pg_advisory_lock(1);
        PERFORM pg_advisory_unlock(1);
    END IF;
    RETURN key;
END
$$;
CREATE TABLE raced (key text, v text, who text);
CREATE UNIQUE INDEX ON raced (gate(key));

-- the slow one does nothing in the end
SELECT pg_advisory_lock(1);
-- session slow
SET story.gate = 2;
-- session slow waits
INSERT INTO raced VALUES ('k', 'taken back', 'slow') ON CONFLICT (gate(key)) DO NOTHING;
-- session main
INSERT INTO raced VALUES ('k', 'was quicker', 'main');
SELECT pg_advisory_unlock(1);

-- the slow one updates in the end; its first row, which is large, is taken back together with its chunks
-- session slow
INSERT INTO t VALUES (20, 'between');
-- session main
SELECT pg_advisory_lock(1);
-- session slow
BEGIN;
INSERT INTO t VALUES (21, 'slow, before');
SET story.gate = 2;
-- session slow waits
INSERT INTO raced VALUES ('l', repeat(md5('slow'), 300), 'slow')
    ON CONFLICT (gate(key)) DO UPDATE SET v = 'updated by slow', who = excluded.who;
-- session main
INSERT INTO raced VALUES ('l', repeat(md5('main'), 300), 'main') ON CONFLICT (gate(key)) DO NOTHING;
SELECT pg_advisory_unlock(1);
-- session slow
INSERT INTO t VALUES (22, repeat(md5('after'), 300));
COMMIT;

-- the slow one is given up while its row stands unconfirmed
-- session main
SELECT pg_advisory_lock(1);
-- session slow
SET story.gate = 2;
SET lock_timeout = '200ms';
BEGIN;
INSERT INTO t VALUES (30, 'kept');
SAVEPOINT s;
-- fails
INSERT INTO raced VALUES ('m', repeat(md5('gone'), 300), 'slow') ON CONFLICT (gate(key)) DO NOTHING;
ROLLBACK TO s;
INSERT INTO t VALUES (31, 'kept, too');
COMMIT;
-- session main
SELECT pg_advisory_unlock(1);
DELETE FROM t WHERE id = 1;
