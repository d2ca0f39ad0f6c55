-- Long values: stored elsewhere, compressed or not; untouched ones, of which the log says nothing; keys; COPY; tables that are written anew.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
CREATE TABLE books (id int PRIMARY KEY, title text, pages text, n int DEFAULT 0);
ALTER TABLE books ALTER COLUMN pages SET STORAGE EXTERNAL;
INSERT INTO books SELECT 1, 'plain', string_agg(i::text, ',') FROM generate_series(1, 1500) i;
INSERT INTO books SELECT 2, string_agg(md5(i::text), ''), NULL FROM generate_series(1, 150) i;
INSERT INTO books VALUES (3, repeat('squeezed ', 30000), 'short');
UPDATE books SET n = n + 1;
UPDATE books SET pages = pages || 'end' WHERE id = 1;
INSERT INTO books VALUES (1, 'x', 'again') ON CONFLICT (id) DO UPDATE SET title = EXCLUDED.title || books.title;
DELETE FROM books WHERE id = 2;
SELECT lsn, xid, length(data), left(data, 100), right(data, 60) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT count(*), sum(length(data)) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- A key that is long itself: the old one is told whole, whether it is changed or not.
CREATE TABLE laws (name text PRIMARY KEY, body text, note text);
ALTER TABLE laws ALTER COLUMN name SET STORAGE EXTERNAL, ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO laws VALUES (repeat('Donaudampfschiff', 140), repeat('fahrt', 900));
UPDATE laws SET note = left(body, 5);
UPDATE laws SET name = name || 's';
UPDATE laws SET body = body || 's', note = repeat(body, 5);
DELETE FROM laws;
SELECT lsn, xid, length(data), left(data, 120), right(data, 120) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- Old rows that are told whole, and take more than a page.
ALTER TABLE laws REPLICA IDENTITY FULL;
INSERT INTO laws VALUES (repeat('0123456789', 250), repeat('9876543210', 5000), NULL);
UPDATE laws SET note = body;
UPDATE laws SET note = NULL;
BEGIN;
INSERT INTO laws SELECT 'law ' || i, NULL, NULL FROM generate_series(1, 3000) i;
UPDATE laws SET body = note WHERE length(name) > 100;
DELETE FROM laws WHERE length(name) > 100;
COMMIT;
SELECT xid, length(data), left(data, 120), right(data, 120) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1') WHERE data NOT LIKE '%INSERT: %law %';
SELECT count(*), sum(length(data)) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
ALTER TABLE laws REPLICA IDENTITY NOTHING;
UPDATE laws SET body = repeat(name, 500) WHERE name LIKE 'law 1%' AND length(name) < 6;
DELETE FROM laws;
SELECT left(data, 60), count(*), sum(length(data)) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0') GROUP BY 1 ORDER BY 1;

-- Many rows of one record, some of them long.
CREATE TABLE copied (id int PRIMARY KEY, v text);
ALTER TABLE copied ALTER COLUMN v SET STORAGE EXTERNAL;
COPY copied FROM PROGRAM 'seq 1 400 | awk ''{ v = "short"; if ($1 % 90 == 7) { for (i = 0; i < 9; i++) v = v v v $1 } print $1 "\t" v }''';
COPY copied FROM STDIN;
401	by hand
402	\N
\.
SELECT lsn, xid, length(data), left(data, 70) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- Written anew, which is not told unless it is asked for.
BEGIN;
UPDATE copied SET v = v || '!' WHERE id = 7;
ALTER TABLE copied ALTER COLUMN id TYPE bigint;
UPDATE copied SET id = -id WHERE id = 7;
INSERT INTO copied VALUES (500, repeat('anew', 1000));
COMMIT;
VACUUM FULL copied;
UPDATE copied SET id = -id WHERE id = -7;
SELECT lsn, xid, length(data), left(data, 70), right(data, 20) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT left(data, 22), count(*), sum(length(data)) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-rewrites', '1', 'skip-empty-xacts', '1') GROUP BY 1 ORDER BY 1;
SELECT pg_drop_replication_slot('s');
DROP TABLE books, laws, copied;
