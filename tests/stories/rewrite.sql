-- Tables that get new files: rows are written anew, and nothing of it must appear.

CREATE TABLE t (id int PRIMARY KEY, n int, v text);
INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 20) i;
ALTER TABLE t ALTER COLUMN n TYPE bigint;
INSERT INTO t VALUES (21, 21, 'bigint');
ALTER TABLE t ALTER COLUMN n TYPE text USING 'n' || n;
UPDATE t SET v = 'text now' WHERE id = 1;
DELETE FROM t WHERE id = 2;
VACUUM FULL t;
INSERT INTO t VALUES (22, 'after', 'vacuum full');
CLUSTER t USING t_pkey;
UPDATE t SET id = 300 WHERE id = 3;
ALTER TABLE t ADD COLUMN r float8 DEFAULT random();
DELETE FROM t WHERE id = 4;
ALTER TABLE t DROP COLUMN r;

-- in one transaction with rows before, between and after
BEGIN;
INSERT INTO t VALUES (30, '30', 'before');
ALTER TABLE t ALTER COLUMN n TYPE int USING NULL;
INSERT INTO t VALUES (31, 31, 'between');
UPDATE t SET v = 'written by us' WHERE id = 30;
ALTER TABLE t ALTER COLUMN n TYPE numeric;
INSERT INTO t VALUES (32, 32.5, 'after');
DELETE FROM t WHERE id = 31;
CLUSTER t USING t_pkey;
INSERT INTO t VALUES (33, 33, 'clustered');
COMMIT;
UPDATE t SET n = 0 WHERE id = 32;

-- taken back: the old file counts
BEGIN;
ALTER TABLE t ALTER COLUMN n TYPE text;
INSERT INTO t VALUES (34, 'never', 'never');
ROLLBACK;
INSERT INTO t VALUES (35, 35, 'old file');
BEGIN;
SAVEPOINT s;
ALTER TABLE t ALTER COLUMN n TYPE text;
INSERT INTO t VALUES (36, 'never', 'never');
ROLLBACK TO s;
INSERT INTO t VALUES (37, 37, 'old file again');
COMMIT;

-- files for tables with long values; a new file by TRUNCATE; unlogged and back
CREATE TABLE long (id int PRIMARY KEY, v text, w int);
ALTER TABLE long ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO long SELECT i, repeat(chr(96 + i), 3000), i FROM generate_series(1, 3) i;
ALTER TABLE long ALTER COLUMN w TYPE bigint;
UPDATE long SET w = 10 WHERE id = 1;
VACUUM FULL long;
UPDATE long SET w = 20 WHERE id = 2;
UPDATE long SET v = repeat('n', 2500) WHERE id = 3;
BEGIN;
TRUNCATE long;
INSERT INTO long VALUES (4, repeat('t', 2600), 4);
COMMIT;
ALTER TABLE long SET UNLOGGED;
INSERT INTO long VALUES (5, 'never', 5);
ALTER TABLE long SET LOGGED;
INSERT INTO long VALUES (6, 'logged again', 6);
UPDATE long SET w = 50 WHERE id = 5;

-- a rewrite by one session while another has a transaction open on another table
-- session a
BEGIN;
INSERT INTO old.items (id, label) VALUES (200, 'a, before');
-- session main
VACUUM FULL t;
ALTER TABLE long ALTER COLUMN w TYPE text;
INSERT INTO long VALUES (7, 'main', 'seven');
-- session a
INSERT INTO long VALUES (8, 'a, in the new file', 'eight');
INSERT INTO t VALUES (40, 40, 'a, in the new file');
COMMIT;
