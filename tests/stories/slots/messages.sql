-- Logical messages: with their transaction, at once, rolled back, of other databases, of bytes.
-- `pg_logical_emit_message` writes into the log, so it is the server's alone, as whatever changes a table is.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
CREATE TABLE letters (id int PRIMARY KEY);
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'with its transaction');
SELECT count(*) FROM pg_logical_emit_message(false, 'post', 'at once');
BEGIN;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'never arrives');
SELECT count(*) FROM pg_logical_emit_message(false, 'post', 'arrives all the same');
INSERT INTO letters VALUES (1);
ROLLBACK;
BEGIN;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'first');
INSERT INTO letters VALUES (2);
SELECT count(*) FROM pg_logical_emit_message(false, 'post', 'overtakes them');
SAVEPOINT torn;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'torn up');
ROLLBACK TO torn;
SAVEPOINT kept;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'kept');
RELEASE kept;
-- session beside
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'committed, and so all before it is flushed');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL);
-- session main
DELETE FROM letters;
SELECT count(*) FROM pg_logical_emit_message(true, '', '');
COMMIT;
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL);
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, 2, 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'only-local', '1', 'include-timestamp', '0', 'force-binary', '0');

-- Bytes: text for as long as they are, up to a zero; all of them where bytes are asked for.
SELECT count(*) FROM pg_logical_emit_message(false, 'bytes', '\x61620063'::bytea);
SELECT count(*) FROM pg_logical_emit_message(true, 'bytes', '\x0a095c27'::bytea);
SELECT count(*) FROM pg_logical_emit_message(true, 'größer', 'ž');
SELECT count(*) FROM pg_logical_emit_message(true, 'long', repeat('0123456789', 2000));
SELECT lsn, xid, length(data), left(data, 80) FROM pg_logical_slot_peek_changes('s', NULL, NULL);
SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, 5, 'force-binary', '1', 'skip-empty-xacts', '1');
SELECT count(*) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- Those of another database are that database's, with a transaction or without.
-- session elsewhere in other
SELECT 'made' FROM pg_create_logical_replication_slot('s_elsewhere', 'test_decoding');
SELECT count(*) FROM pg_logical_emit_message(false, 'post', 'elsewhere, at once');
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'elsewhere, with its transaction');
-- session main
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'here');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);
-- session elsewhere
SELECT * FROM pg_logical_slot_get_changes('s_elsewhere', NULL, NULL, 'include-xids', '0');
SELECT pg_drop_replication_slot('s_elsewhere');
-- session main

-- pgoutput gives them to who asks for them.
SELECT 'made' FROM pg_create_logical_replication_slot('p', 'pgoutput');
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'asked for');
SELECT count(*) FROM pg_logical_emit_message(false, 'post', '\x00ff'::bytea);
-- since 17
SELECT count(*) FROM pg_logical_emit_message(false, 'post', 'flushed', true);
-- since 17
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'flushed, with its transaction', true);
INSERT INTO letters VALUES (3);
SELECT * FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything', 'messages', 'true');
SELECT * FROM pg_logical_slot_get_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
DROP PUBLICATION everything;
SELECT pg_drop_replication_slot('p');
SELECT pg_drop_replication_slot('s');
DROP TABLE letters;
