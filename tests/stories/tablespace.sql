-- Tables outside the default tablespace, and tables that move.
-- story since 15

SET allow_in_place_tablespaces = on;
CREATE TABLESPACE apart LOCATION '';
CREATE TABLE t (id int PRIMARY KEY, v text) TABLESPACE apart;
INSERT INTO t VALUES (1, 'apart');
INSERT INTO t VALUES (2, repeat(md5('large'), 300));
ALTER TABLE t SET TABLESPACE pg_default;
INSERT INTO t VALUES (3, 'back');
BEGIN;
INSERT INTO t VALUES (4, 'before the move');
ALTER TABLE t SET TABLESPACE apart;
UPDATE t SET v = 'after the move' WHERE id = 4;
COMMIT;
ALTER INDEX t_pkey SET TABLESPACE apart;
UPDATE t SET id = 10 WHERE id = 1;
TRUNCATE t;
INSERT INTO t VALUES (5, 'afresh');
ALTER TABLE old.items SET TABLESPACE apart;
UPDATE old.items SET label = 'moved' WHERE id = 1;
