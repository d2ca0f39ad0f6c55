-- pg_logical_emit_message: with a transaction, or at once.

CREATE TABLE t (id int PRIMARY KEY);
SELECT pg_logical_emit_message(true, 'alone', 'transactional');
SELECT pg_logical_emit_message(false, 'alone', 'not transactional');
SELECT pg_logical_emit_message(false, 'empty', '');
SELECT pg_logical_emit_message(true, '', 'no prefix');
SELECT pg_logical_emit_message(true, 'it''s', E'quotes '' and \\ and é 😀 and a\nnew line');

BEGIN;
SELECT pg_logical_emit_message(false, 'at once', 'before any row: no xid');
INSERT INTO t VALUES (1);
SELECT pg_logical_emit_message(true, 'within', 'between rows');
SELECT pg_logical_emit_message(false, 'at once', 'between rows');
INSERT INTO t VALUES (2);
COMMIT;

BEGIN;
SELECT pg_logical_emit_message(true, 'first', 'then a row');
INSERT INTO t VALUES (3);
COMMIT;

BEGIN;
INSERT INTO t VALUES (4);
SELECT pg_logical_emit_message(true, 'never', 'rolled back');
SELECT pg_logical_emit_message(false, 'even so', 'rolled back');
ROLLBACK;
BEGIN;
SELECT pg_logical_emit_message(true, 'never', 'rolled back, alone');
ROLLBACK;

BEGIN;
SAVEPOINT s;
SELECT pg_logical_emit_message(true, 'never', 'in a subtransaction');
SELECT pg_logical_emit_message(false, 'even so', 'in a subtransaction');
ROLLBACK TO s;
SELECT pg_logical_emit_message(true, 'kept', 'in a subtransaction');
COMMIT;
BEGIN;
SAVEPOINT s;
SELECT pg_logical_emit_message(true, 'never', 'in a subtransaction');
ROLLBACK TO s;
COMMIT;

-- definitions and a message
BEGIN;
CREATE TABLE u (id int PRIMARY KEY);
SELECT pg_logical_emit_message(true, 'with', 'a definition');
COMMIT;

-- while another is open
-- session a
BEGIN;
INSERT INTO t VALUES (10);
SELECT pg_logical_emit_message(true, 'a', 'late');
-- session b
SELECT pg_logical_emit_message(false, 'b', 'at once');
SELECT pg_logical_emit_message(true, 'b', 'alone');
-- session a
SELECT pg_logical_emit_message(false, 'a', 'at once');
COMMIT;

-- session main
SELECT pg_logical_emit_message(true, 'long', repeat('long ', 3000));
SELECT pg_logical_emit_message(false, 'binary', '\x68656c6c6f'::bytea);
-- session other in postgres
SELECT pg_logical_emit_message(false, 'elsewhere', 'another database');
SELECT pg_logical_emit_message(true, 'elsewhere', 'another database');
