-- Rows that were written on behalf of another server carry its origin; a plugin may refuse them. Here they are shown like any other.

CREATE TABLE t (id int PRIMARY KEY, v text);
SELECT pg_replication_origin_create('elsewhere');
INSERT INTO t VALUES (1, 'ours');
SELECT pg_replication_origin_session_setup('elsewhere');
INSERT INTO t VALUES (2, 'theirs');
BEGIN;
SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2020-01-02 03:04:05+00');
INSERT INTO t VALUES (3, 'theirs, with its position and time');
SAVEPOINT s;
UPDATE t SET v = 'theirs, updated' WHERE id = 1;
RELEASE s;
SELECT pg_logical_emit_message(true, 'tx', 'theirs');
COMMIT;
BEGIN;
INSERT INTO t VALUES (4, 'never');
ROLLBACK;
CREATE TABLE theirs (a int);
INSERT INTO theirs VALUES (1);
TRUNCATE theirs;
SELECT pg_replication_origin_session_reset();
DELETE FROM t WHERE id = 2;
COPY t FROM STDIN;
10	ours again
\.
SELECT pg_replication_origin_drop('elsewhere');
