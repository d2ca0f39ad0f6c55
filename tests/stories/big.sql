-- Large transactions: more rows than a server holds in memory when it is given little, beside small ones that overtake them.

CREATE TABLE t (id int, v int);
CREATE TABLE small (id int PRIMARY KEY);

-- session big
BEGIN;
INSERT INTO t SELECT i, i % 100 FROM generate_series(1, 8000) i;
-- session main
INSERT INTO small VALUES (1);
-- session big
SAVEPOINT s;
INSERT INTO t SELECT i, i % 100 FROM generate_series(8001, 14000) i;
-- session main
INSERT INTO small VALUES (2);
CHECKPOINT;
-- session big
SAVEPOINT lost;
INSERT INTO t SELECT i, -1 FROM generate_series(1, 3000) i;
ROLLBACK TO lost;
INSERT INTO t SELECT i, i % 100 FROM generate_series(14001, 20000) i;
UPDATE t SET v = -v WHERE id % 50 = 0;
COMMIT;
DELETE FROM t WHERE id % 40 = 0;
-- session main
INSERT INTO small VALUES (3);
