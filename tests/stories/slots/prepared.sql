-- Transactions in two phases, of a slot that knows one: they come when, and if, the second phase says so.
SELECT 'made' FROM pg_create_logical_replication_slot('s', 'test_decoding');
CREATE TABLE loans (id int PRIMARY KEY);
CREATE TABLE books (id int);
BEGIN;
INSERT INTO loans VALUES (1);
PREPARE TRANSACTION 'lent';
SELECT data FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1');
COMMIT PREPARED 'lent';
INSERT INTO loans VALUES (2);
BEGIN;
INSERT INTO loans VALUES (3);
PREPARE TRANSACTION 'not lent';
ROLLBACK PREPARED 'not lent';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');

-- One that alters what others write to, and one that comes in between.
BEGIN;
INSERT INTO loans VALUES (5);
ALTER TABLE loans ADD COLUMN who text DEFAULT 'nobody';
INSERT INTO loans VALUES (6, 'Anna');
SAVEPOINT mistaken;
INSERT INTO loans VALUES (7, 'Berta');
ROLLBACK TO mistaken;
INSERT INTO loans VALUES (8, 'Clara');
PREPARE TRANSACTION 'altered';
INSERT INTO books VALUES (9);
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL);
COMMIT PREPARED 'altered';
INSERT INTO loans VALUES (10);
INSERT INTO books VALUES (11);
SELECT * FROM pg_logical_slot_peek_changes('s', NULL, NULL, 'include-timestamp', '1');

-- Read up to a transaction that is prepared, and on from there.
BEGIN;
INSERT INTO books VALUES (12);
PREPARE TRANSACTION 'over night';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'include-xids', '0');
COMMIT PREPARED 'over night';
SELECT * FROM pg_logical_slot_get_changes('s', NULL, 1);
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL);
DROP TABLE loans, books;
SELECT * FROM pg_logical_slot_get_changes('s', NULL, NULL, 'skip-empty-xacts', '1');
SELECT pg_drop_replication_slot('s');
