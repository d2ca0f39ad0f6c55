-- Long values: out of line or compressed, whole, unchanged, new, and gone.

CREATE FUNCTION noise(seed int, n int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT string_agg(decode(md5(seed || '.' || i), 'hex'), ''::bytea ORDER BY i) FROM generate_series(1, n) i $$;
CREATE TABLE t (id int PRIMARY KEY, body text, raw bytea, n int);
ALTER TABLE t ALTER COLUMN body SET STORAGE EXTERNAL;

INSERT INTO t VALUES (1, repeat('abcdefghij', 300), NULL, 0);
INSERT INTO t VALUES (2, repeat('two', 2000), noise(2, 300), 0);
INSERT INTO t VALUES (3, 'short', noise(3, 200), 0), (4, repeat('four', 700), 'short', 0);
-- exactly one chunk, one byte more, and one less
INSERT INTO t SELECT 10 + i, repeat('x', 1996 * 2 + i), NULL, 0 FROM generate_series(-1, 1) i;

-- unchanged, changed, set to NULL
UPDATE t SET n = n + 1;
UPDATE t SET body = repeat('new', 1000) WHERE id = 2;
UPDATE t SET raw = noise(33, 150) WHERE id = 3;
UPDATE t SET body = NULL WHERE id = 4;
UPDATE t SET body = body || '!' WHERE id = 1;
UPDATE t SET id = 20 WHERE id = 2;
DELETE FROM t WHERE id = 20;
DELETE FROM t WHERE id = 1;

-- written and changed in the same transaction
BEGIN;
INSERT INTO t VALUES (30, repeat('thirty', 500), noise(30, 150), 0);
UPDATE t SET n = 1 WHERE id = 30;
UPDATE t SET body = repeat('other', 500) WHERE id = 30;
INSERT INTO t VALUES (31, repeat('thirty-one', 300), NULL, 0);
DELETE FROM t WHERE id = 31;
SAVEPOINT s;
INSERT INTO t VALUES (32, repeat('never', 600), NULL, 0);
ROLLBACK TO s;
INSERT INTO t VALUES (33, repeat('after', 600), NULL, 0);
COMMIT;

-- compressed
CREATE TABLE c (id int PRIMARY KEY, v text, m text);
ALTER TABLE c ALTER COLUMN m SET STORAGE MAIN;
INSERT INTO c VALUES (1, repeat('inline', 600), repeat('main', 900));
INSERT INTO c VALUES (2, repeat(encode(noise(5, 20), 'hex'), 3), NULL);
INSERT INTO c VALUES (3, encode(noise(6, 300), 'hex') || repeat('z', 20000), repeat('m', 5000));
UPDATE c SET m = 'm' WHERE id = 3;
UPDATE c SET v = v || 'and more' WHERE id = 1;
-- needs lz4
ALTER TABLE c ALTER COLUMN v SET COMPRESSION lz4;
INSERT INTO c VALUES (4, repeat('lz4 where there is', 300), NULL);
INSERT INTO c VALUES (5, encode(noise(7, 250), 'hex') || repeat('lz', 9000), NULL);
UPDATE c SET m = 'unchanged' WHERE id IN (4, 5);
DELETE FROM c WHERE id = 4;

-- many rows of one statement
CREATE TABLE many (id int PRIMARY KEY, v text);
ALTER TABLE many ALTER COLUMN v SET STORAGE EXTERNAL;
COPY many FROM PROGRAM 'for i in 1 2 3 4 5 6 7 8 9; do printf "$i\t%0*d\n" $((i * 600)) $i; done';
COPY many FROM STDIN;
100	short
101	shorter
\.
BEGIN;
COPY many FROM PROGRAM 'for i in 21 22 23; do printf "$i\t%03000d\n" $i; done';
UPDATE many SET id = id + 1000 WHERE id > 20 AND id < 30;
COMMIT;

-- a full old row has its long values in it
CREATE TABLE f (id int, a text, b text, n int);
ALTER TABLE f REPLICA IDENTITY FULL;
ALTER TABLE f ALTER COLUMN a SET STORAGE EXTERNAL;
INSERT INTO f VALUES (1, repeat('full', 800), repeat('b', 4000), 0), (2, repeat('FULL', 900), NULL, 0);
UPDATE f SET n = 1;
UPDATE f SET a = repeat('changed', 400) WHERE id = 1;
UPDATE f SET a = NULL, b = repeat('c', 3000) WHERE id = 2;
DELETE FROM f;
UPDATE old.notes SET body = body || '.' WHERE id <= 2;
DELETE FROM old.notes WHERE id = 3;

-- a long value that is the key
CREATE TABLE k (key text PRIMARY KEY, n int);
ALTER TABLE k ALTER COLUMN key SET STORAGE EXTERNAL;
INSERT INTO k VALUES (repeat('key', 800), 0);
UPDATE k SET n = 1;
UPDATE k SET key = repeat('yek', 800);
DELETE FROM k;

-- two transactions whose chunks are side by side
-- session a
BEGIN;
INSERT INTO t VALUES (40, repeat('a40', 1000), NULL, 0);
-- session b
BEGIN;
INSERT INTO t VALUES (50, repeat('b50', 1000), NULL, 0);
-- session a
INSERT INTO t VALUES (41, repeat('a41', 1000), noise(41, 150), 0);
-- session b
INSERT INTO t VALUES (51, repeat('b51', 1000), NULL, 0);
ROLLBACK;
-- session a
COMMIT;
-- session main
SELECT count(*) FROM t;

-- a value across several checkpoints' worth of pages
INSERT INTO t VALUES (60, repeat('0123456789', 12000), noise(60, 3000), 0);
UPDATE t SET n = 1 WHERE id = 60;
ALTER TABLE t DROP COLUMN raw;
UPDATE t SET n = 2 WHERE id = 60;
INSERT INTO t VALUES (61, repeat('dropped', 500), 0);
