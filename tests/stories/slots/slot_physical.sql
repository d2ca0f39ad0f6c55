-- Physical slots hold back a log that is not ours to hold back, and give nothing to read: outside of the server there are none, and what asks
-- for one is refused. So what the server says of one that it has, ours says of one that is not there.
-- refused 0A000
SELECT pg_create_physical_replication_slot('bytes');
-- refused 0A000
SELECT pg_create_physical_replication_slot('bytes_from_now', true);
-- refused 0A000
SELECT pg_copy_physical_replication_slot('bytes_from_now', 'bytes_copied');
-- fails
-- refused 0A000
SELECT pg_copy_physical_replication_slot('bytes', 'bytes_copied');
SELECT 'made' FROM pg_create_logical_replication_slot('rows', 'test_decoding');
-- fails
-- refused 0A000
SELECT pg_copy_physical_replication_slot('rows', 'bytes_again');
-- fails
-- refused 42704
SELECT pg_copy_logical_replication_slot('bytes', 'rows_again');
-- fails
-- refused 42704
SELECT * FROM pg_logical_slot_get_changes('bytes', NULL, NULL);
-- fails
-- refused 42704
SELECT * FROM pg_logical_slot_peek_binary_changes('bytes_from_now', NULL, NULL);
-- fails
-- refused 42704
SELECT pg_replication_slot_advance('bytes', '0/1');
-- refused 42704
SELECT 'moved' FROM pg_replication_slot_advance('bytes_from_now', 'FFFFFFFF/0');
SELECT slot_name, slot_type FROM pg_replication_slots WHERE slot_type = 'logical';
-- A failover slot is copied to standbys by the server that has it.
-- since 17
-- refused 0A000
SELECT pg_create_logical_replication_slot('rows_on_standbys', 'test_decoding', false, false, true);
-- since 17
-- fails
SELECT pg_create_logical_replication_slot('rows_on_standbys_for_now', 'test_decoding', true, false, true);
-- since 17
-- fails
-- refused 0A000
SELECT pg_sync_replication_slots();
-- until 16
-- fails
SELECT pg_create_logical_replication_slot('rows_on_standbys', 'test_decoding', false, false, true);
-- refused 42704
SELECT pg_drop_replication_slot('bytes');
-- refused 42704
SELECT pg_drop_replication_slot('bytes_from_now');
-- refused 42704
SELECT pg_drop_replication_slot('bytes_copied');
-- since 17
-- refused 42704
SELECT pg_drop_replication_slot('rows_on_standbys');
SELECT pg_drop_replication_slot('rows');
