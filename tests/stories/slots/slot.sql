-- Slots: made, dropped, copied, moved; what may be said of them by whom, and what is said to who may not.
CREATE TABLE ships (id int PRIMARY KEY, name text);

-- Names. What does not fit into the type name is cut off, here as there, before anybody looks at it.
SELECT * FROM pg_create_logical_replication_slot('kept', 'test_decoding');
-- fails
SELECT * FROM pg_create_logical_replication_slot('kept', 'test_decoding');
-- fails
SELECT * FROM pg_create_logical_replication_slot('kept', 'pgoutput', true);
-- fails
SELECT * FROM pg_create_logical_replication_slot('', 'test_decoding');
-- fails
SELECT * FROM pg_create_logical_replication_slot('Kept', 'test_decoding');
-- fails
SELECT * FROM pg_create_logical_replication_slot('to keep', 'test_decoding', temporary => true, twophase => true);
-- fails
SELECT * FROM pg_create_logical_replication_slot('größer', 'test_decoding', false, true);
-- fails
SELECT * FROM pg_create_logical_replication_slot('a/../b', 'test_decoding');
SELECT slot_name FROM pg_create_logical_replication_slot('a_name_that_goes_on_for_longer_than_a_name_in_postgresql_can_be_64_and_more', 'test_decoding');
-- fails
SELECT * FROM pg_create_logical_replication_slot('a_name_that_goes_on_for_longer_than_a_name_in_postgresql_can_be_64_and_less', 'test_decoding', twophase => true);
SELECT pg_drop_replication_slot('a_name_that_goes_on_for_longer_than_a_name_in_postgresql_can_be_64_or_so');

-- Plugins. None of this name was installed; nothing is left of the slot.
-- fails
SELECT pg_create_logical_replication_slot('of_nobody', 'no_such_plugin');
-- fails
SELECT pg_create_logical_replication_slot('of_nobody', '');
-- fails
SELECT pg_create_logical_replication_slot('of_nobody', 'no_such_plugin', true, true);
SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'of_nobody';
SELECT pg_create_logical_replication_slot(NULL, 'test_decoding');
SELECT * FROM pg_create_logical_replication_slot('kept', NULL);

-- Slots that end with their session, and one that does not.
SELECT 'made' FROM pg_create_logical_replication_slot('passing', 'test_decoding', true);
SELECT 'made' FROM pg_create_logical_replication_slot('passing_twice', 'test_decoding', temporary => true, twophase => true);
SELECT slot_name, plugin, slot_type, database, temporary, active, two_phase, xmin, wal_status FROM pg_replication_slots ORDER BY slot_name;
-- since 17
SELECT slot_name, inactive_since IS NULL AS never, conflicting, invalidation_reason, failover, synced FROM pg_replication_slots ORDER BY 1;
-- since 16
SELECT slot_name, conflicting FROM pg_replication_slots ORDER BY 1;
-- since 18
SELECT slot_name, two_phase_at, two_phase_at IS NULL AS none FROM pg_replication_slots ORDER BY 1;
INSERT INTO ships VALUES (1, 'Adler'), (2, 'Bremen');
SELECT * FROM pg_logical_slot_get_changes('passing', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('passing_twice', NULL, NULL, 'include-xids', '0');
SELECT * FROM pg_logical_slot_get_changes('passing', NULL, NULL);

-- session second
-- fails
SELECT * FROM pg_logical_slot_get_changes('passing', NULL, NULL);
-- fails
SELECT * FROM pg_logical_slot_peek_binary_changes('passing', NULL, NULL);
-- fails
SELECT pg_drop_replication_slot('passing');
-- fails
SELECT pg_replication_slot_advance('passing', pg_current_wal_lsn());
-- fails
SELECT pg_copy_logical_replication_slot('passing', 'passing');
-- fails
SELECT pg_create_logical_replication_slot('passing', 'test_decoding');
SELECT 'made' FROM pg_create_logical_replication_slot('of_second', 'test_decoding', true);
SELECT count(*) FROM pg_logical_slot_peek_changes('kept', NULL, NULL);
SELECT slot_name, active, temporary FROM pg_replication_slots ORDER BY slot_name;

-- An error, too, ends the temporary slots of a session, and of no other.
-- session main
-- fails
SELECT pg_drop_replication_slot('of_second');
SELECT slot_name, temporary, active FROM pg_replication_slots ORDER BY slot_name;
-- fails
SELECT pg_drop_replication_slot('passing');
SELECT 'made' FROM pg_create_logical_replication_slot('passing', 'test_decoding', true);
SELECT pg_drop_replication_slot('passing');
SELECT 'made' FROM pg_create_logical_replication_slot('passing', 'test_decoding');
SELECT 'made' FROM pg_create_logical_replication_slot('passing_again', 'test_decoding', true);
SELECT slot_name, temporary FROM pg_replication_slots ORDER BY slot_name;
-- session main ends

-- session third
SELECT slot_name, temporary, active FROM pg_replication_slots ORDER BY slot_name;
-- fails
SELECT pg_drop_replication_slot('passing_again');
SELECT pg_drop_replication_slot('passing');
-- session second ends
-- session third
-- fails
SELECT * FROM pg_logical_slot_get_changes('of_second', NULL, NULL);
SELECT slot_name FROM pg_replication_slots;

-- What a session that is rolled back has read is read.
BEGIN;
SELECT data FROM pg_logical_slot_get_changes('kept', NULL, 1, 'include-xids', '0', 'skip-empty-xacts', '1');
ROLLBACK;
SELECT data FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- Moved, and not back again.
INSERT INTO ships VALUES (3, 'Cuxhaven');
SELECT slot_name FROM pg_replication_slot_advance('kept', pg_current_wal_lsn());
SELECT * FROM pg_logical_slot_peek_changes('kept', NULL, NULL);
INSERT INTO ships VALUES (4, 'Danzig');
SELECT * FROM pg_logical_slot_peek_changes('kept', NULL, NULL);
-- fails
SELECT * FROM pg_replication_slot_advance('kept', '0/1');
-- fails
SELECT * FROM pg_replication_slot_advance('kept', '0/0');
-- fails
SELECT * FROM pg_replication_slot_advance('nobodys', '0/0');
-- fails
SELECT * FROM pg_replication_slot_advance('nobodys', '0/1');
SELECT * FROM pg_replication_slot_advance('kept', NULL);
SELECT slot_name, end_lsn IS NULL AS nowhere FROM pg_replication_slot_advance('kept', 'FFFFFFFF/FFFFFFF0');
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL);
INSERT INTO ships VALUES (5, 'Emden');
SELECT * FROM pg_logical_slot_get_changes('kept', '0/1', NULL);
SELECT * FROM pg_logical_slot_peek_changes('kept', NULL, -1);
SELECT * FROM pg_logical_slot_get_changes('kept', pg_current_wal_lsn(), 100);
INSERT INTO ships SELECT id, 'a ship' FROM generate_series(10, 14) id;
INSERT INTO ships VALUES (6, 'Flensburg');
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, 2);
SELECT data FROM pg_logical_slot_get_changes('kept', NULL, NULL) LIMIT 1;
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL);

-- Copied.
INSERT INTO ships VALUES (7, 'Glückstadt');
SELECT * FROM pg_copy_logical_replication_slot('kept', 'copied');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('kept', 'copied');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('kept', 'kept');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('nobodys', 'copied_again');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('kept', 'Copied');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('kept', 'copied_again', false, 'no_such_plugin');
-- fails
SELECT * FROM pg_copy_logical_replication_slot('kept', '', true);
SELECT * FROM pg_copy_logical_replication_slot('kept', NULL);
SELECT slot_name FROM pg_copy_logical_replication_slot('kept', 'copied_for_now', true);
SELECT slot_name FROM pg_copy_logical_replication_slot('copied_for_now', 'copied_of_that');
SELECT slot_name FROM pg_copy_logical_replication_slot('copied_for_now', 'copied_for_good', false);
SELECT slot_name FROM pg_copy_logical_replication_slot('kept', 'copied_as_messages', false, 'pgoutput');
SELECT slot_name FROM pg_copy_logical_replication_slot('kept', 'copied_as_messages_for_now', true, 'pgoutput');
SELECT slot_name, plugin, temporary, active, database FROM pg_replication_slots ORDER BY slot_name;
SELECT * FROM pg_logical_slot_get_changes('copied', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('copied_of_that', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('copied_for_good', NULL, NULL);
-- fails
SELECT * FROM pg_logical_slot_get_changes('copied_as_messages', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL);
-- session third ends

-- session fourth
SELECT slot_name, plugin, temporary, active FROM pg_replication_slots ORDER BY slot_name;
SELECT 'made' FROM pg_create_logical_replication_slot('phases', 'test_decoding', false, true);
SELECT slot_name FROM pg_copy_logical_replication_slot('phases', 'copied_phases');
SELECT slot_name, two_phase FROM pg_replication_slots ORDER BY slot_name;

-- From another database a slot is seen and dropped, since 17 moved, and not read. The server copies it into that database, whose catalogs of then
-- nothing of ours knows.
-- session elsewhere in other
SELECT slot_name, database FROM pg_replication_slots ORDER BY slot_name;
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL);
-- fails
SELECT * FROM pg_logical_slot_peek_binary_changes('kept', NULL, NULL);
-- until 16
-- fails
SELECT * FROM pg_replication_slot_advance('kept', pg_current_wal_lsn());
-- since 17
SELECT slot_name FROM pg_replication_slot_advance('kept', pg_current_wal_lsn());
-- fails
SELECT pg_create_logical_replication_slot('kept', 'test_decoding');
-- refused 0A000
SELECT slot_name FROM pg_copy_logical_replication_slot('kept', 'copied_elsewhere');
-- refused 42704
SELECT pg_drop_replication_slot('copied_elsewhere');
SELECT slot_name, database FROM pg_replication_slots ORDER BY slot_name;
SELECT pg_drop_replication_slot('copied_for_good');
SELECT 'made' FROM pg_create_logical_replication_slot('of_elsewhere', 'test_decoding');
CREATE TABLE ships_elsewhere (id int);
INSERT INTO ships_elsewhere VALUES (1);
SELECT * FROM pg_logical_slot_get_changes('of_elsewhere', NULL, NULL, 'skip-empty-xacts', '1');
SELECT pg_drop_replication_slot('of_elsewhere');
DROP TABLE ships_elsewhere;
-- session elsewhere ends

-- session fourth
-- Options, wherever they are wrong: the slot stays where it is.
INSERT INTO ships VALUES (8, 'Hamburg');
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include-xids');
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include-xids', 'maybe');
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include_xids', '0');
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'Include-XIDs', '0');
-- fails
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include-xids', '0', NULL, '1');
-- fails
SELECT * FROM pg_logical_slot_get_changes(NULL, NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('kept', NULL, NULL, 'include-xids', '0', 'include-xids', '1');
-- fails
SELECT * FROM pg_logical_slot_get_changes('nobodys', NULL, NULL, 'include-xids', 'maybe');

-- Slots are made, copied and dropped by who has the right to; all of these were.
SELECT pg_drop_replication_slot('kept'), pg_drop_replication_slot('phases');
SELECT pg_drop_replication_slot('copied');
SELECT pg_drop_replication_slot('copied_phases');
SELECT pg_drop_replication_slot('copied_as_messages');
SELECT pg_drop_replication_slot(NULL);
SELECT slot_name FROM pg_replication_slots;
DROP TABLE ships;
