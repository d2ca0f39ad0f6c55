-- Catalogs get new files while a transaction is open that has itself changed them: its own uncommitted rows move, too, and it goes on
-- to read, change and undo them in their new places.

CREATE TABLE t (id int PRIMARY KEY, v text);

-- session open
BEGIN;
CREATE TABLE made (id int PRIMARY KEY, v text);
INSERT INTO made VALUES (1, 'made');
ALTER TABLE made ADD COLUMN extra numeric DEFAULT 1.50;
INSERT INTO made VALUES (2, 'altered', 2);
SAVEPOINT s;
ALTER TABLE made RENAME COLUMN v TO renamed;
INSERT INTO made VALUES (3, 'renamed', 3);
-- session main
VACUUM FULL pg_class;
INSERT INTO t VALUES (1, 'pg_class has moved');
-- session open
INSERT INTO made VALUES (4, 'pg_class has moved', 4);
-- session main
VACUUM FULL pg_attribute;
VACUUM FULL pg_type;
-- session open
INSERT INTO made VALUES (5, 'pg_attribute has moved', 5);
ROLLBACK TO s;
INSERT INTO made (id, v) VALUES (6, 'the old name again');
ALTER TABLE made DROP COLUMN extra;
UPDATE made SET v = v || '!', id = id + 10;
-- session main
-- a second time, now with what was rolled back among the dead
VACUUM FULL pg_class;
VACUUM FULL pg_attribute;
VACUUM FULL pg_namespace;
VACUUM FULL pg_index;
-- session open
DELETE FROM made WHERE id = 11;
COMMIT;
INSERT INTO made VALUES (20, 'committed');

-- the same, and then all of it is rolled back
BEGIN;
CREATE TYPE kind AS ENUM ('one', 'two');
CREATE TABLE never (id int, k kind);
INSERT INTO never VALUES (1, 'one');
ALTER TABLE made RENAME TO renamed;
INSERT INTO renamed VALUES (21, 'never');
-- session main
VACUUM FULL pg_enum;
VACUUM FULL pg_class;
-- session open
INSERT INTO never VALUES (2, 'two');
ROLLBACK;
UPDATE made SET v = 'the table keeps its name' WHERE id = 20;

-- a schema and a type of one's own, that move before they are committed; a table is dropped, and gone from the new file only later
BEGIN;
CREATE SCHEMA own;
CREATE TYPE own.kind AS ENUM ('one', 'two');
CREATE TABLE own.t (id int PRIMARY KEY, k own.kind);
INSERT INTO own.t VALUES (1, 'one');
ALTER TYPE own.kind RENAME VALUE 'one' TO 'uno';
DROP TABLE made;
-- session main
VACUUM FULL pg_namespace;
VACUUM FULL pg_type;
VACUUM FULL pg_enum;
-- session open
INSERT INTO own.t VALUES (2, 'uno');
ALTER SCHEMA own RENAME TO mine;
INSERT INTO mine.t VALUES (3, 'two');
-- session main
VACUUM FULL pg_class;
-- session open
UPDATE mine.t SET id = 30 WHERE id = 3;
COMMIT;
DELETE FROM mine.t WHERE id = 30;

-- prepared, with the catalogs rewritten before it is committed
BEGIN;
ALTER TABLE mine.t ADD COLUMN n int DEFAULT 7;
INSERT INTO mine.t VALUES (40, 'two', 40);
PREPARE TRANSACTION 'moved';
-- session main
VACUUM FULL pg_attribute;
VACUUM pg_class, pg_type, pg_namespace, pg_enum;
INSERT INTO t VALUES (2, 'while it is prepared');
COMMIT PREPARED 'moved';
UPDATE mine.t SET k = 'two' WHERE id = 1;
