-- Another database: none of it must appear.

CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'before');
-- since 15
CREATE DATABASE other2 STRATEGY file_copy;
-- until 14
CREATE DATABASE other2;
INSERT INTO t VALUES (2, 'created');
-- session other in other2
CREATE TABLE t (id bigint PRIMARY KEY, w bool);
INSERT INTO t VALUES (1, true);
BEGIN;
INSERT INTO t VALUES (2, false);
-- session main
INSERT INTO t VALUES (3, 'while the other is open');
BEGIN;
INSERT INTO t VALUES (4, 'both are open');
-- session other
ALTER TABLE t ADD COLUMN x int;
INSERT INTO t VALUES (3, true, 3);
TRUNCATE t;
SELECT pg_logical_emit_message(true, 'other', 'other');
COMMIT;
CREATE TYPE mood AS ENUM ('elsewhere');
VACUUM FULL pg_class;
VACUUM FULL pg_attribute;
CREATE TABLE only_there (id int PRIMARY KEY);
COPY only_there FROM PROGRAM 'seq 1 100';
-- session main
ALTER TABLE t ADD COLUMN n int;
INSERT INTO t VALUES (5, 'n', 5);
COMMIT;
CREATE ROLE somebody;
INSERT INTO t VALUES (6, 'shared catalogs', 6);
-- session third in postgres
CREATE TABLE t (id int PRIMARY KEY);
INSERT INTO t VALUES (1);
VACUUM FULL pg_database;
VACUUM FULL pg_authid;
-- session main
INSERT INTO t VALUES (7, 'shared catalogs rewritten', 7);
DROP ROLE somebody;
INSERT INTO t VALUES (8, 'last', 8);
-- session third
CREATE DATABASE other3;
ALTER DATABASE app CONNECTION LIMIT 50;
-- session main
INSERT INTO t VALUES (9, 'rows of the new pg_database changed', 9);
