-- When a transaction committed: as the session's settings have times, and as late as it says.
CREATE TABLE ticks (id int PRIMARY KEY);
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding', false, true);
INSERT INTO ticks VALUES (1);
BEGIN;
INSERT INTO ticks VALUES (2);
PREPARE TRANSACTION 'tick';
COMMIT PREPARED 'tick';
BEGIN;
INSERT INTO ticks VALUES (3);
PREPARE TRANSACTION 'tick back';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', 'on');
ROLLBACK PREPARED 'tick back';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', 'off');
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, 1, 'include-timestamp', '1', 'include-xids', '0');
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, 1, VARIADIC ARRAY['include-timestamp', 'yes', 'include-xids', 'f']);
-- fails
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, 1, 'include-timestamp', NULL);
-- fails
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, 1, 'include-timestamp', 'now');
SET TimeZone = 'America/St_Johns';
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', '1', 'include-xids', '0', 'skip-empty-xacts', '1') WHERE data LIKE '%(at %';
SET DateStyle = 'German';
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', '1') WHERE data LIKE '%(at %';
SET DateStyle = 'Postgres, MDY';
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', '1') WHERE data LIKE '%(at %';
SET DateStyle = 'SQL, DMY';
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-timestamp', '1') WHERE data LIKE '%(at %';
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-timestamp', '1');
RESET DateStyle;
RESET TimeZone;
SHOW DateStyle;
SHOW TimeZone;
-- fails
SET DateStyle = 'Roman';
-- fails
SET TimeZone = 'Europe/Atlantis';
SELECT pg_drop_replication_slot('s');
DROP TABLE ticks;
