-- Text and bytes: which functions take what a plugin writes, which is told before anything is decoded.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
CREATE TABLE letters (id int PRIMARY KEY, v text, b bytea);
INSERT INTO letters VALUES (1, 'grün', '\x00ff');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'force-binary', 'off');
-- fails
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'force-binary', 'on');
-- fails
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'force-binary', '1');
-- fails
SELECT data FROM pg_logical_slot_get_changes('s', NULL, 0, 'force-binary', NULL);
-- fails
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'force-binary', '');
-- fails
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'force-binary', 'both');
SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'force-binary', 'off');
SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'force-binary', 'on', 'include-xids', 'no');
SET bytea_output = 'escape';
SELECT * FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'force-binary', 'true');
RESET bytea_output;
SELECT count(*), sum(length(data)) FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_get_binary_changes('s', NULL, NULL);
SELECT 'made' FROM pg_create_logical_replication_slot('of_bytes', 'pgoutput');
CREATE PUBLICATION everything FOR ALL TABLES;
INSERT INTO letters VALUES (2, 'blau', NULL);
-- fails
SELECT * FROM pg_logical_slot_peek_changes('of_bytes', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything');
-- fails
SELECT * FROM pg_logical_slot_peek_binary_changes('of_bytes', NULL, NULL);
SELECT * FROM pg_logical_slot_get_binary_changes('of_bytes', NULL, NULL, 'proto_version', '1', 'publication_names', 'everything');
DROP PUBLICATION everything;
SELECT pg_drop_replication_slot('s');
SELECT pg_drop_replication_slot('of_bytes');
DROP TABLE letters;
