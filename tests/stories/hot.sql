-- Updates within a page, prefixes and suffixes, and pages that are pruned under them.

CREATE TABLE h (id int PRIMARY KEY, a text, b int, c text) WITH (fillfactor = 40);
INSERT INTO h SELECT i, 'prefix ' || i || ' suffix', i, repeat('c', 50) FROM generate_series(1, 30) i;
UPDATE h SET b = b + 1;
UPDATE h SET a = 'prefix changed suffix' WHERE id % 3 = 0;
UPDATE h SET c = c || 'tail' WHERE id % 3 = 1;
UPDATE h SET a = NULL WHERE id % 5 = 0;
UPDATE h SET a = 'no longer null' WHERE id % 10 = 0;
DO $$ BEGIN FOR i IN 1..40 LOOP UPDATE h SET b = b + 1 WHERE id = 7; END LOOP; END $$;
SELECT count(*) FROM h;
UPDATE h SET b = 0 WHERE id = 7;
UPDATE h SET b = 1 WHERE id = 7;
DELETE FROM h WHERE id BETWEEN 10 AND 15;
VACUUM h;
INSERT INTO h VALUES (10, 'in a place that was free', 10, NULL);
UPDATE h SET id = 100 WHERE id = 10;
CHECKPOINT;
-- images of pages instead of changes, or beside them
UPDATE h SET b = b * 2 WHERE id < 5;
UPDATE h SET b = b * 2 WHERE id < 5;
INSERT INTO h VALUES (101, 'after a checkpoint', 1, 'c');
DELETE FROM h WHERE id = 101;

CREATE TABLE one (id int PRIMARY KEY, n int);
INSERT INTO one VALUES (1, 0);
UPDATE one SET n = 1;
UPDATE one SET n = 2;
VACUUM one;
UPDATE one SET n = 3;
CREATE INDEX one_n ON one (n);
UPDATE one SET n = 4;
ALTER TABLE one REPLICA IDENTITY FULL;
UPDATE one SET n = 5;
UPDATE one SET id = 2;
DELETE FROM one;
VACUUM one;
INSERT INTO one VALUES (1, 0);

-- locked, then updated; updated by two in turn
-- session a
BEGIN;
SELECT * FROM h WHERE id = 20 FOR UPDATE;
UPDATE h SET b = 200 WHERE id = 20;
-- session b waits
UPDATE h SET b = b + 1 WHERE id = 20;
-- session a
COMMIT;
-- session b
BEGIN;
SELECT * FROM h WHERE id = 21 FOR KEY SHARE;
-- session a
UPDATE h SET b = 210 WHERE id = 21;
-- session b
UPDATE h SET b = b + 1 WHERE id = 21;
COMMIT;
VACUUM FREEZE h;
UPDATE h SET b = -1 WHERE id = 20;
-- pruning of definitions
DO $$ BEGIN FOR i IN 1..30 LOOP EXECUTE 'ALTER TABLE h ALTER COLUMN b SET STATISTICS ' || i; EXECUTE 'ALTER TABLE h RENAME COLUMN c TO c' || i; EXECUTE 'ALTER TABLE h RENAME COLUMN c' || i || ' TO c'; END LOOP; END $$;
UPDATE h SET b = -2 WHERE id = 20;
DO $$ BEGIN FOR i IN 1..25 LOOP EXECUTE 'ALTER TABLE h RENAME TO h' || i; EXECUTE 'INSERT INTO h' || i || ' VALUES (' || 1000 + i || ')'; EXECUTE 'ALTER TABLE h' || i || ' RENAME TO h'; END LOOP; END $$;
VACUUM pg_class;
VACUUM pg_attribute;
UPDATE h SET b = -3 WHERE id > 1000;
