-- Tables that their owner calls catalogs, for output plugins to look at: their rows are decoded like others, and more is logged of them.

CREATE TABLE settings (id int PRIMARY KEY, v text) WITH (user_catalog_table = true);
CREATE TABLE t (id int PRIMARY KEY);
INSERT INTO settings VALUES (1, 'one'), (2, 'two');
BEGIN;
INSERT INTO settings VALUES (3, repeat('three ', 1000));
UPDATE settings SET v = 'two, changed' WHERE id = 2;
INSERT INTO t VALUES (1);
SAVEPOINT s;
DELETE FROM settings WHERE id = 1;
ROLLBACK TO s;
UPDATE settings SET v = 'again' WHERE id = 2;
DELETE FROM settings WHERE id = 3;
COMMIT;
ALTER TABLE settings SET (user_catalog_table = false);
INSERT INTO settings VALUES (4, 'a table now');
ALTER TABLE t SET (user_catalog_table = true);
ALTER TABLE t ADD COLUMN w text;
INSERT INTO t VALUES (2, 'w');
VACUUM FULL t;
COPY t FROM STDIN;
3	copied
4	\N
\.
UPDATE t SET w = 'x';
ALTER TABLE t RESET (user_catalog_table);
DELETE FROM t;
