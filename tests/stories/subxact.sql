-- Transactions within transactions.

CREATE TABLE t (id int PRIMARY KEY, v text);

BEGIN;
INSERT INTO t VALUES (1, 'top');
SAVEPOINT a;
INSERT INTO t VALUES (2, 'a');
SAVEPOINT b;
INSERT INTO t VALUES (3, 'b');
RELEASE b;
INSERT INTO t VALUES (4, 'a again');
RELEASE a;
INSERT INTO t VALUES (5, 'top again');
COMMIT;

BEGIN;
INSERT INTO t VALUES (11, 'top');
SAVEPOINT a;
INSERT INTO t VALUES (12, 'never');
ROLLBACK TO a;
INSERT INTO t VALUES (13, 'a, second life');
SAVEPOINT b;
INSERT INTO t VALUES (14, 'never');
SAVEPOINT c;
INSERT INTO t VALUES (15, 'never');
RELEASE c;
ROLLBACK TO b;
ROLLBACK TO b;
INSERT INTO t VALUES (16, 'b, third life');
COMMIT;

-- an outer one rolled back takes the released inner one with it
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (21, 'never');
SAVEPOINT b;
INSERT INTO t VALUES (22, 'never');
RELEASE b;
ROLLBACK TO a;
UPDATE t SET v = 'kept' WHERE id = 1;
COMMIT;

-- nothing but what was taken back
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (31, 'never');
ROLLBACK TO a;
COMMIT;
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (32, 'never');
ROLLBACK TO a;
SAVEPOINT b;
UPDATE t SET v = 'never';
ROLLBACK TO b;
SELECT txid_current() IS NOT NULL;
COMMIT;

-- only subtransactions write; the top gets its xid last
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (41, 'sub only');
RELEASE a;
SAVEPOINT b;
INSERT INTO t VALUES (42, 'sub only, the other');
RELEASE b;
COMMIT;

-- by exceptions
DO $$
BEGIN
    FOR i IN 1..10 LOOP
        BEGIN
            INSERT INTO t VALUES (100 + i / 2, 'loop ' || i);
        EXCEPTION WHEN unique_violation THEN
            UPDATE t SET v = v || ', again ' || i WHERE id = 100 + i / 2;
        END;
    END LOOP;
END $$;

-- more than a commit record's cache of 64, deeply nested too
DO $$
BEGIN
    FOR i IN 1..90 LOOP
        BEGIN
            INSERT INTO t VALUES (200 + i, 'many ' || i);
            IF i % 7 = 0 THEN RAISE EXCEPTION 'no'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
CREATE FUNCTION deep(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF n = 0 THEN RETURN; END IF;
    INSERT INTO t VALUES (400 + n, 'depth ' || n);
    PERFORM deep(n - 1);
    IF n % 10 = 0 THEN RAISE EXCEPTION 'no'; END IF;
EXCEPTION WHEN raise_exception THEN NULL;
END $$;
SELECT deep(35);

-- two sessions, side by side
-- session x
BEGIN;
SAVEPOINT a;
INSERT INTO t VALUES (51, 'x');
-- session y
BEGIN;
INSERT INTO t VALUES (61, 'y');
SAVEPOINT a;
INSERT INTO t VALUES (62, 'never');
-- session x
SAVEPOINT b;
INSERT INTO t VALUES (52, 'never');
-- session y
ROLLBACK TO a;
-- session main
CHECKPOINT;
-- session x
ROLLBACK TO b;
INSERT INTO t VALUES (53, 'x, b again');
COMMIT;
-- session y
INSERT INTO t VALUES (63, 'y, a again');
COMMIT;

-- definitions in subtransactions
-- session main
BEGIN;
SAVEPOINT a;
ALTER TABLE t ADD COLUMN w int;
INSERT INTO t VALUES (71, 'w', 1);
SAVEPOINT b;
ALTER TABLE t ADD COLUMN x int;
INSERT INTO t VALUES (72, 'never', 1, 1);
ROLLBACK TO b;
INSERT INTO t VALUES (73, 'w', 2);
RELEASE a;
CREATE TABLE u (id int PRIMARY KEY);
INSERT INTO u VALUES (1);
COMMIT;
INSERT INTO t VALUES (74, 'w', 3);
