-- As many slots as there may be, and one more. Those that are dropped, or end with their session or with an error in it, make room.
SELECT 'made' FROM pg_create_logical_replication_slot('s0', 'test_decoding');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's1');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's2');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's3', true);
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's4', true);
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's5');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's6');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's7');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's8');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's9');
-- fails
SELECT 'made' FROM pg_create_logical_replication_slot('s10', 'test_decoding');
SELECT slot_name FROM pg_replication_slots ORDER BY slot_name;
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's3');
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's4');
-- fails
SELECT 'made' FROM pg_create_logical_replication_slot('s10', 'no_such_plugin');
-- fails
SELECT 'made' FROM pg_copy_logical_replication_slot('s0', 's10', true);
-- fails
SELECT 'made' FROM pg_create_logical_replication_slot('s9', 'test_decoding', true);
SELECT pg_drop_replication_slot('s9');
SELECT 'made' FROM pg_create_logical_replication_slot('s10', 'test_decoding', true);
-- session main ends
-- session second
SELECT 'made' FROM pg_create_logical_replication_slot('s11', 'test_decoding', true);
SELECT slot_name, temporary FROM pg_replication_slots ORDER BY slot_name;
SELECT pg_drop_replication_slot('s0');
SELECT pg_drop_replication_slot('s1');
SELECT pg_drop_replication_slot('s2');
SELECT pg_drop_replication_slot('s3');
SELECT pg_drop_replication_slot('s4');
SELECT pg_drop_replication_slot('s5');
SELECT pg_drop_replication_slot('s6');
SELECT pg_drop_replication_slot('s7');
SELECT pg_drop_replication_slot('s8');
