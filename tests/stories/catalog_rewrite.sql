-- Catalogs that get new files (VACUUM FULL) between, under and across transactions that define things and write rows.

CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'before all');

-- session w
BEGIN;
INSERT INTO t VALUES (10, 'w, open across it all');
INSERT INTO old.items (id, label) VALUES (210, 'w');

-- session main
VACUUM FULL pg_class;
INSERT INTO t VALUES (2, 'pg_class is new');
CREATE TABLE after_class (id int PRIMARY KEY, v text);
INSERT INTO after_class VALUES (1, 'x');
-- session w
INSERT INTO t VALUES (11, 'w, pg_class is new');
INSERT INTO after_class VALUES (10, 'w');

-- session main
VACUUM FULL pg_attribute;
INSERT INTO t VALUES (3, 'pg_attribute is new');
CREATE TABLE after_attribute (id int PRIMARY KEY, a int, b int);
INSERT INTO after_attribute VALUES (1, 1, 1);
ALTER TABLE after_attribute DROP COLUMN a;
INSERT INTO after_attribute VALUES (2, 2);
-- session w
INSERT INTO after_attribute VALUES (10, 10);

-- session main
VACUUM FULL pg_type;
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE TABLE after_type (id int PRIMARY KEY, c colour);
INSERT INTO after_type VALUES (1, 'red');
VACUUM FULL pg_enum;
ALTER TYPE colour RENAME VALUE 'red' TO 'crimson';
INSERT INTO after_type VALUES (2, 'crimson');
-- session w
INSERT INTO after_type VALUES (10, 'crimson');

-- session main
VACUUM FULL pg_namespace;
CREATE SCHEMA fresh;
CREATE TABLE fresh.t (id int PRIMARY KEY);
INSERT INTO fresh.t VALUES (1);
-- session w
INSERT INTO fresh.t VALUES (10);

-- session main
VACUUM FULL pg_index;
CREATE TABLE after_index (a int NOT NULL, b int NOT NULL, v text);
CREATE UNIQUE INDEX after_index_b ON after_index (b);
ALTER TABLE after_index REPLICA IDENTITY USING INDEX after_index_b;
INSERT INTO after_index VALUES (1, 2, 'x'), (3, 4, 'y');
UPDATE after_index SET b = 20 WHERE a = 1;
DELETE FROM after_index WHERE a = 3;
-- session w
UPDATE t SET id = 12 WHERE id = 11;
DELETE FROM old.items WHERE id = 3;
COMMIT;

-- session main
UPDATE t SET v = 'w is done' WHERE id = 10;

-- twice the same, with and without definitions between
VACUUM FULL pg_class;
VACUUM FULL pg_class;
INSERT INTO t VALUES (20, 'twice');
CREATE TABLE between (id int PRIMARY KEY);
VACUUM FULL pg_class;
INSERT INTO between VALUES (1);
DROP TABLE between;
VACUUM FULL pg_attribute;
VACUUM FULL pg_class;
INSERT INTO after_class VALUES (20, 'y');

-- dead rows of definitions, then a transaction that began before defines more
-- session d
BEGIN;
CREATE TABLE d (id int PRIMARY KEY, v text);
INSERT INTO d VALUES (1, 'd');
ALTER TABLE d ADD COLUMN w int;
INSERT INTO d VALUES (2, 'd', 2);
-- session main
CREATE TABLE gone (id int PRIMARY KEY);
INSERT INTO gone VALUES (1);
DROP TABLE gone;
CHECKPOINT;
-- session d
ALTER TABLE d RENAME COLUMN w TO x;
INSERT INTO d VALUES (3, 'd', 3);
COMMIT;
-- session main
VACUUM FULL pg_class;
VACUUM FULL pg_attribute;
CHECKPOINT;
UPDATE d SET x = 30 WHERE id = 3;
CREATE TABLE last (id int PRIMARY KEY, v text);
INSERT INTO last VALUES (1, 'last');
REINDEX TABLE pg_class;
CLUSTER pg_class USING pg_class_oid_index;
INSERT INTO last VALUES (2, 'clustered');
ALTER TABLE last RENAME TO latest;
INSERT INTO latest VALUES (3, 'renamed');
