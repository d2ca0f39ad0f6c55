-- Transactions in two phases: they appear when they are committed.

CREATE TABLE t (id int PRIMARY KEY, v text);
BEGIN;
INSERT INTO t VALUES (1, 'prepared');
PREPARE TRANSACTION 'one';
INSERT INTO t VALUES (2, 'meanwhile');
COMMIT PREPARED 'one';

BEGIN;
INSERT INTO t VALUES (3, 'never');
PREPARE TRANSACTION 'two';
INSERT INTO t VALUES (4, 'meanwhile');
ROLLBACK PREPARED 'two';
INSERT INTO t VALUES (3, 'free again');

-- with subtransactions
BEGIN;
INSERT INTO t VALUES (5, 'top');
SAVEPOINT a;
INSERT INTO t VALUES (6, 'sub');
RELEASE a;
SAVEPOINT b;
INSERT INTO t VALUES (7, 'never');
ROLLBACK TO b;
INSERT INTO t VALUES (8, 'sub again');
SELECT pg_logical_emit_message(true, 'within', 'a message');
PREPARE TRANSACTION 'it''s three';
CHECKPOINT;
BEGIN;
INSERT INTO t VALUES (9, 'begun after the prepare');
-- session b
COMMIT PREPARED 'it''s three';
-- session main
INSERT INTO t VALUES (10, 'ended after the other''s commit');
COMMIT;

-- definitions
BEGIN;
CREATE TABLE made (id int PRIMARY KEY);
INSERT INTO made VALUES (1);
ALTER TABLE made ADD COLUMN v text;
INSERT INTO made VALUES (2, 'v');
PREPARE TRANSACTION 'ddl';
INSERT INTO t VALUES (11, 'not yet');
COMMIT PREPARED 'ddl';
INSERT INTO made VALUES (3, 'made');
BEGIN;
ALTER TABLE made RENAME COLUMN v TO never;
INSERT INTO made VALUES (4, 'never');
PREPARE TRANSACTION 'ddl';
ROLLBACK PREPARED 'ddl';
INSERT INTO made VALUES (5, 'still v');

-- two at once, committed the other way round; empty ones
BEGIN;
INSERT INTO t VALUES (20, 'p');
PREPARE TRANSACTION 'p';
BEGIN;
INSERT INTO t VALUES (21, 'q');
PREPARE TRANSACTION 'q';
ALTER TYPE old.mood RENAME VALUE 'sad' TO 'glum';
INSERT INTO old.items (id, mood) VALUES (600, 'glum');
COMMIT PREPARED 'q';
COMMIT PREPARED 'p';
BEGIN;
PREPARE TRANSACTION 'empty';
COMMIT PREPARED 'empty';
BEGIN;
CREATE TABLE only_catalogs (id int);
PREPARE TRANSACTION 'catalogs';
COMMIT PREPARED 'catalogs';
-- never ended
BEGIN;
INSERT INTO t VALUES (30, 'left open');
PREPARE TRANSACTION 'left';
INSERT INTO t VALUES (31, 'last');
