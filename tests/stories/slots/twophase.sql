-- Transactions in two phases, of a slot that knows both. Locks of what is prepared are held on the server; to look for them there says nothing of a
-- decoder that takes none, so the story has them stand in nobody's way instead: what is prepared and locked is decoded at once.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding', false, true);
SELECT 'made' FROM pg_create_logical_replication_slot('one_phase', 'test_decoding', twophase => false);
CREATE TABLE loans (id int PRIMARY KEY);
CREATE TABLE books (id int PRIMARY KEY);
BEGIN;
INSERT INTO loans VALUES (1);
INSERT INTO loans VALUES (2);
SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
PREPARE TRANSACTION 'it''s lent';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
COMMIT PREPARED 'it''s lent';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', '1');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');

-- Rolled back in the second phase, once it has been told.
BEGIN;
INSERT INTO loans VALUES (3);
PREPARE TRANSACTION 'not lent';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);
ROLLBACK PREPARED 'not lent';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);

-- With definitions, beside another that it does not lock out.
BEGIN;
ALTER TABLE loans ADD COLUMN who text;
INSERT INTO loans VALUES (4, 'Anna');
PREPARE TRANSACTION 'altered';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
INSERT INTO books VALUES (5);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
COMMIT PREPARED 'altered';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
INSERT INTO loans VALUES (6);
INSERT INTO books VALUES (7);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- Locked as a whole, and written anew.
BEGIN;
INSERT INTO loans VALUES (8, 'Berta');
CLUSTER loans USING loans_pkey;
LOCK TABLE books IN ACCESS EXCLUSIVE MODE;
INSERT INTO loans VALUES (9, 'Clara');
PREPARE TRANSACTION 'locked';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
COMMIT PREPARED 'locked';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- Savepoints.
BEGIN;
CREATE TABLE shelves (id int);
INSERT INTO shelves VALUES (1);
SAVEPOINT a;
INSERT INTO shelves VALUES (2);
ROLLBACK TO a;
SAVEPOINT b;
INSERT INTO shelves VALUES (3);
SAVEPOINT c;
INSERT INTO shelves VALUES (4);
RELEASE b;
PREPARE TRANSACTION 'shelves';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
COMMIT PREPARED 'shelves';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- test_decoding leaves a transaction whose name says so to the second phase.
BEGIN;
INSERT INTO loans VALUES (20);
PREPARE TRANSACTION 'lent_nodecode';
BEGIN;
INSERT INTO loans VALUES (21);
PREPARE TRANSACTION '_nodecode';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
COMMIT PREPARED 'lent_nodecode';
ROLLBACK PREPARED '_nodecode';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- With messages, with TRUNCATE, with nothing; limits count each phase by itself.
BEGIN;
SELECT count(*) FROM pg_logical_emit_message(true, 'post', 'in both phases');
TRUNCATE books;
PREPARE TRANSACTION 'emptied';
BEGIN;
CREATE TABLE never_filled (id int);
PREPARE TRANSACTION 'nothing';
BEGIN;
SELECT 1;
PREPARE TRANSACTION 'not even begun';
COMMIT PREPARED 'not even begun';
COMMIT PREPARED 'nothing';
COMMIT PREPARED 'emptied';
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-xids', '0');
SELECT * FROM pg_logical_slot_get_changes('s', NULL, 1);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, 1);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, 3);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);

-- A copy knows one phase. What was prepared before is told it at its end.
BEGIN;
INSERT INTO loans VALUES (30);
PREPARE TRANSACTION 'copied';
SELECT slot_name FROM pg_copy_logical_replication_slot('s', 'copy_of_s');
SELECT * FROM pg_logical_slot_get_changes('copy_of_s', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);
COMMIT PREPARED 'copied';
SELECT * FROM pg_logical_slot_get_changes('copy_of_s', NULL, NULL);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);
SELECT count(*), count(DISTINCT xid::text) FROM pg_logical_slot_get_changes('one_phase', NULL, NULL);
DROP TABLE loans, books, shelves, never_filled;
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT pg_drop_replication_slot('s');
SELECT pg_drop_replication_slot('copy_of_s');
SELECT pg_drop_replication_slot('one_phase');
