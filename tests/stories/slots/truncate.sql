-- TRUNCATE: of one table, of several, of one twice, with what refers to it, with its sequences, of leaves, and taken back.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
CREATE TABLE harbours (id serial PRIMARY KEY, name text);
CREATE TABLE berths (id int PRIMARY KEY, harbour int REFERENCES harbours, length numeric);
CREATE TABLE "Odd one" (id int) PARTITION BY LIST (id);
CREATE TABLE "Odd leaf" PARTITION OF "Odd one" FOR VALUES IN (1);
CREATE TABLE "Even leaf" PARTITION OF "Odd one" FOR VALUES IN (2);
CREATE UNLOGGED TABLE scratch (id int);
TRUNCATE berths;
TRUNCATE berths RESTART IDENTITY;
TRUNCATE harbours CASCADE;
TRUNCATE harbours, harbours RESTART IDENTITY CASCADE;
TRUNCATE harbours, berths, "Odd leaf";
TRUNCATE ONLY berths CONTINUE IDENTITY RESTRICT;
TRUNCATE "Odd one";
TRUNCATE scratch;
TRUNCATE scratch, berths;
-- fails
TRUNCATE harbours;
-- fails
TRUNCATE ONLY "Odd one";
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
BEGIN;
INSERT INTO harbours (name) VALUES ('Kiel');
TRUNCATE harbours RESTART IDENTITY CASCADE;
INSERT INTO harbours (name) VALUES ('Lübeck');
SAVEPOINT here;
TRUNCATE berths, harbours;
ROLLBACK TO here;
TRUNCATE "Even leaf";
COMMIT;
BEGIN;
TRUNCATE "Odd one", harbours CASCADE;
ROLLBACK;
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0');
SELECT 'made' FROM pg_create_logical_replication_slot('p', 'pgoutput');
CREATE PUBLICATION truncated FOR TABLE harbours, "Odd one" WITH (publish = 'insert, truncate');
CREATE PUBLICATION not_truncated FOR TABLE harbours WITH (publish = 'insert');
TRUNCATE harbours, berths, "Odd leaf" RESTART IDENTITY;
TRUNCATE berths;
SELECT * FROM pg_logical_slot_peek_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'truncated');
-- until 17
-- fails
SELECT * FROM pg_logical_slot_get_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'truncated,never_made');
SELECT count(*) FROM pg_logical_slot_get_binary_changes('p', NULL, NULL, 'proto_version', '1', 'publication_names', 'not_truncated');
DROP PUBLICATION truncated, not_truncated;
DROP TABLE harbours, berths, "Odd one", scratch;
SELECT pg_drop_replication_slot('p');
SELECT pg_drop_replication_slot('s');
