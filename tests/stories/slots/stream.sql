-- Transactions that are larger than logical_decoding_work_mem, in blocks. Where blocks end is not the server's choice here, so they are compared put
-- together: what is streamed of each transaction that has ended, that something is of one that has not, and all that is told outside of blocks.
SET logical_decoding_work_mem = '64kB';
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
SHOW logical_decoding_work_mem;
CREATE TABLE cargo (id int PRIMARY KEY, v text);
CREATE TABLE crew (id int);
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- One that is large, and one that is not.
INSERT INTO cargo SELECT i, repeat('coal', 100) FROM generate_series(1, 400) i;
INSERT INTO crew VALUES (1);
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'include-timestamp', '1');
SELECT left(data, 40) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '0', 'skip-empty-xacts', '1');

-- A subtransaction of it that is rolled back, with a message and a TRUNCATE in it. It is smaller than the limit: of a larger one the server may stream
-- rows, and say that they came to nothing, where ours, which reads ahead, knows that they do.
BEGIN;
SAVEPOINT thrown;
SELECT count(*) FROM pg_logical_emit_message(true, 'log', 'loading');
INSERT INTO cargo SELECT i, repeat('wood', 100) FROM generate_series(2001, 2040) i;
TRUNCATE crew;
ROLLBACK TO thrown;
INSERT INTO cargo SELECT i, repeat('iron', 100) FROM generate_series(1001, 1400) i;
INSERT INTO cargo SELECT i, repeat('salt', 100) FROM generate_series(3001, 3400) i;
SELECT count(*) FROM pg_logical_emit_message(true, 'log', repeat('loaded ', 10));
TRUNCATE crew;
INSERT INTO crew VALUES (2);
COMMIT;
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1');

-- Long values, of rows and of COPY.
ALTER TABLE cargo ALTER COLUMN v SET STORAGE EXTERNAL;
INSERT INTO cargo SELECT i, repeat('rope', 2000) FROM generate_series(4001, 4020) i;
COPY cargo FROM PROGRAM 'seq 5001 5040 | awk ''{ v = "sail"; for (i = 0; i < 11; i++) v = v v; print $1 "\t" v }''';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1', 'include-xids', '0');

-- Still open, and then committed; still open, and then rolled back.
-- session loading
BEGIN;
INSERT INTO cargo SELECT i, repeat('corn', 100) FROM generate_series(6001, 6500) i;
-- session main
INSERT INTO crew VALUES (3);
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '0', 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');
-- session loading
COMMIT;
BEGIN;
INSERT INTO cargo SELECT i, repeat('sand', 100) FROM generate_series(7001, 7500) i;
-- session main
INSERT INTO crew VALUES (4);
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');
-- session loading
ROLLBACK;
-- session main
INSERT INTO crew VALUES (5);
SELECT xid, left(data, 60) FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
-- fails
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', 'parallel');
-- fails
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '');
-- fails
SET logical_decoding_work_mem = '63kB';
-- fails
SET logical_decoding_work_mem = 'much';
-- fails
SET logical_decoding_work_mem = '1 PB';
-- fails
SET logical_decoding_work_mem = '4TB';
SHOW logical_decoding_work_mem;
SET logical_decoding_work_mem = '1536kB';
SHOW logical_decoding_work_mem;
SET logical_decoding_work_mem = 2048;
SHOW logical_decoding_work_mem;
RESET logical_decoding_work_mem;
SHOW logical_decoding_work_mem;
SELECT pg_drop_replication_slot('s');
DROP TABLE cargo, crew;
