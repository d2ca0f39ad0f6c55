-- Large transactions in two phases, streamed: `stream-changes` on a slot that knows both phases. They are compared as those of `stream` are.
SET logical_decoding_work_mem = '64kB';
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding', false, true);
CREATE TABLE cargo (id int PRIMARY KEY, v text);
BEGIN;
INSERT INTO cargo SELECT i, repeat('coal', 100) FROM generate_series(1, 400) i;
SAVEPOINT kept;
SELECT count(*) FROM pg_logical_emit_message(true, 'log', 'loaded');
INSERT INTO cargo VALUES (401, 'more');
PREPARE TRANSACTION 'load';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1', 'include-xids', '0');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');
COMMIT PREPARED 'load';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');

-- Left to the second phase by its name.
BEGIN;
INSERT INTO cargo SELECT i, repeat('iron', 100) FROM generate_series(1001, 1400) i;
PREPARE TRANSACTION 'load_nodecode';
SELECT count(*) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
COMMIT PREPARED 'load_nodecode';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'skip-empty-xacts', '1');

-- Rolled back once it has been told.
BEGIN;
INSERT INTO cargo SELECT i, repeat('wood', 100) FROM generate_series(2001, 2400) i;
PREPARE TRANSACTION 'unload';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'include-timestamp', '1');
ROLLBACK PREPARED 'unload';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', '1', 'include-timestamp', '1');

-- Two in one statement: the option is the statement's, not the slot's.
BEGIN;
INSERT INTO cargo SELECT i, repeat('salt', 100) FROM generate_series(3001, 3400) i;
PREPARE TRANSACTION 'salt';
BEGIN;
INSERT INTO cargo VALUES (4001, 'small');
PREPARE TRANSACTION 'small';
SELECT left(data, 60) FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'stream-changes', 'on', 'skip-empty-xacts', '1');
COMMIT PREPARED 'small';
COMMIT PREPARED 'salt';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'stream-changes', 'on', 'skip-empty-xacts', '1');
SELECT pg_drop_replication_slot('s');
DROP TABLE cargo;
