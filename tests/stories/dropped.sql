-- Columns that are gone, and columns that old rows have never had.

CREATE TABLE f (id int, a text, b int, c numeric, d text);
ALTER TABLE f REPLICA IDENTITY FULL;
INSERT INTO f SELECT i, 'a' || i, i * 10, i / 4.0, 'd' FROM generate_series(1, 12) i;
ALTER TABLE f DROP COLUMN b;
UPDATE f SET a = 'without b' WHERE id = 1;
INSERT INTO f VALUES (20, 'a', 5, 'd');
ALTER TABLE f DROP COLUMN d;
DELETE FROM f WHERE id = 2;
ALTER TABLE f ADD COLUMN i int DEFAULT 42;
ALTER TABLE f ADD COLUMN t text DEFAULT 'it''s a default';
ALTER TABLE f ADD COLUMN n numeric DEFAULT 123456789.000100;
UPDATE f SET a = 'old row gets defaults' WHERE id = 3;
DELETE FROM f WHERE id = 4;
INSERT INTO f VALUES (21, 'new row', 1, 2, 't', 3);
UPDATE f SET i = NULL WHERE id = 21;
-- the default of later rows is not that of earlier ones
ALTER TABLE f ALTER COLUMN i SET DEFAULT 43;
UPDATE f SET a = 'still 42' WHERE id = 5;
ALTER TABLE f ALTER COLUMN t DROP DEFAULT;
DELETE FROM f WHERE id = 6;
ALTER TABLE f ADD COLUMN bo bool DEFAULT true, ADD COLUMN f8 float8 DEFAULT -0.5, ADD COLUMN dt date DEFAULT '2020-02-29',
    ADD COLUMN i8 bigint DEFAULT 9000000000, ADD COLUMN i2 smallint DEFAULT -2, ADD COLUMN empty text DEFAULT '', ADD COLUMN nul text;
UPDATE f SET a = 'many defaults' WHERE id = 7;
DELETE FROM f WHERE id = 8;
DELETE FROM f WHERE id = 21;
ALTER TABLE f DROP COLUMN t;
DELETE FROM f WHERE id = 9;
ALTER TABLE f ADD COLUMN t text DEFAULT 'another t';
DELETE FROM f WHERE id = 10;
-- volatile, hence a rewrite
ALTER TABLE f ADD COLUMN r int DEFAULT (random() * 0)::int;
DELETE FROM f WHERE id = 11;

-- with a key
CREATE TABLE k (x text, id int PRIMARY KEY, v text);
INSERT INTO k VALUES ('x', 1, 'v'), ('x', 2, 'v'), ('x', 3, 'v');
ALTER TABLE k DROP COLUMN x;
UPDATE k SET id = 10 WHERE id = 1;
DELETE FROM k WHERE id = 2;
ALTER TABLE k ADD COLUMN w text DEFAULT 'w';
UPDATE k SET id = 30 WHERE id = 3;
UPDATE k SET v = 'again' WHERE id = 30;
-- a column with a default as key
ALTER TABLE k ADD COLUMN tenant int NOT NULL DEFAULT 8;
ALTER TABLE k DROP CONSTRAINT k_pkey;
ALTER TABLE k ADD PRIMARY KEY (tenant, id);
DELETE FROM k WHERE id = 10;
UPDATE k SET tenant = 9;

-- in one transaction, and taken back
BEGIN;
ALTER TABLE k ADD COLUMN z int DEFAULT 1;
INSERT INTO k (id, v) VALUES (40, 'z');
ALTER TABLE k DROP COLUMN z;
ALTER TABLE k ADD COLUMN z text DEFAULT 'text';
INSERT INTO k (id, v) VALUES (41, 'z');
SAVEPOINT s;
ALTER TABLE k DROP COLUMN v;
INSERT INTO k (id) VALUES (42);
ROLLBACK TO s;
INSERT INTO k (id, v) VALUES (43, 'v');
COMMIT;

-- no columns at all, and all gone
CREATE TABLE none ();
INSERT INTO none DEFAULT VALUES;
CREATE TABLE bare (a int, b text);
INSERT INTO bare VALUES (1, 'b');
ALTER TABLE bare DROP COLUMN a, DROP COLUMN b;
INSERT INTO bare DEFAULT VALUES;
DELETE FROM bare;
-- the standing table
ALTER TABLE old.notes ADD COLUMN tag text DEFAULT 'untagged';
UPDATE old.notes SET body = 'short' WHERE id = 1;
ALTER TABLE old.notes DROP COLUMN body;
DELETE FROM old.notes WHERE id < 4;
