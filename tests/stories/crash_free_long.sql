-- A transaction that stays open while others come and go, and checkpoints pass.

CREATE TABLE t (id int PRIMARY KEY, v text);
-- session long
BEGIN;
INSERT INTO t VALUES (1, 'long, first');
SAVEPOINT s;
INSERT INTO t VALUES (2, 'long, in s');
-- session main
INSERT INTO t VALUES (100, 'quick');
CHECKPOINT;
CREATE TABLE u (id int PRIMARY KEY, v text);
INSERT INTO u VALUES (1, 'u');
INSERT INTO t SELECT i, repeat('filler', 20) FROM generate_series(1000, 1200) i;
-- session long
INSERT INTO u VALUES (2, 'long');
-- session main
CHECKPOINT;
SELECT pg_switch_wal() IS NOT NULL;
UPDATE t SET v = 'updated' WHERE id % 50 = 0;
-- since 16
SELECT pg_log_standby_snapshot() IS NOT NULL;
-- session other
BEGIN;
INSERT INTO t VALUES (300, 'other, begun late');
-- session long
ROLLBACK TO s;
INSERT INTO t VALUES (3, 'long, s again');
-- session main
CHECKPOINT;
CREATE TABLE w (id int PRIMARY KEY);
-- session other
INSERT INTO w VALUES (1);
-- session main
CHECKPOINT;
CHECKPOINT;
INSERT INTO old.items (id, label) VALUES (700, 'main');
-- session long
UPDATE old.items SET label = 'long' WHERE id = 700;
-- session other
COMMIT;
-- session main
VACUUM t;
VACUUM FULL pg_class;
CHECKPOINT;
-- session long
INSERT INTO w VALUES (2);
COMMIT;
-- session main
CHECKPOINT;
INSERT INTO w VALUES (3);
-- open to the end: it never commits
-- session never
BEGIN;
INSERT INTO w VALUES (4);
-- session main
INSERT INTO w VALUES (5);
