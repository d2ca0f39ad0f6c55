-- What is said of the old row.

CREATE TABLE pk (a int, b text, c int, PRIMARY KEY (c, a));
INSERT INTO pk VALUES (1, 'x', 10), (2, 'y', 20), (3, NULL, 30);
UPDATE pk SET b = 'same key' WHERE a = 1;
UPDATE pk SET a = 11 WHERE a = 1;
UPDATE pk SET c = c WHERE a = 2;
UPDATE pk SET c = 21, b = NULL WHERE a = 2;
DELETE FROM pk WHERE a = 3;

CREATE TABLE no_pk (a int, b text);
INSERT INTO no_pk VALUES (1, 'x'), (2, 'y');
UPDATE no_pk SET b = 'z' WHERE a = 1;
DELETE FROM no_pk WHERE a = 2;

CREATE TABLE whole (a int, b text, c numeric, d int);
ALTER TABLE whole REPLICA IDENTITY FULL;
INSERT INTO whole VALUES (1, 'x', 1.5, NULL), (2, NULL, NULL, NULL), (3, NULL, 2, 3);
UPDATE whole SET b = 'y' WHERE a = 1;
UPDATE whole SET a = a;
DELETE FROM whole;

CREATE TABLE nothing (a int PRIMARY KEY, b text);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
INSERT INTO nothing VALUES (1, 'x'), (2, 'y');
UPDATE nothing SET a = 10 WHERE a = 1;
DELETE FROM nothing WHERE a = 2;

CREATE TABLE by_index (a int PRIMARY KEY, b text NOT NULL, c int NOT NULL, d int);
CREATE UNIQUE INDEX by_index_cb ON by_index (c, b) INCLUDE (d);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_cb;
INSERT INTO by_index VALUES (1, 'x', 1, 1), (2, 'y', 2, 2), (3, 'z', 3, 3);
UPDATE by_index SET a = 10 WHERE a = 1;
UPDATE by_index SET b = 'xx' WHERE a = 10;
UPDATE by_index SET d = 20 WHERE a = 2;
DELETE FROM by_index WHERE a = 3;
DROP INDEX by_index_cb;
UPDATE by_index SET a = 200 WHERE a = 2;
DELETE FROM by_index WHERE a = 200;
ALTER TABLE by_index REPLICA IDENTITY DEFAULT;
UPDATE by_index SET a = 11 WHERE a = 10;

CREATE TABLE later (a int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, b int);
INSERT INTO later VALUES (1, 1), (2, 2);
UPDATE later SET a = 3 - a;
DELETE FROM later WHERE a = 1;

-- within one transaction
BEGIN;
INSERT INTO pk VALUES (100, 'in', 100);
UPDATE pk SET a = 101 WHERE a = 100;
ALTER TABLE pk REPLICA IDENTITY FULL;
UPDATE pk SET a = 102 WHERE a = 101;
ALTER TABLE pk REPLICA IDENTITY NOTHING;
UPDATE pk SET a = 103 WHERE a = 102;
ALTER TABLE pk REPLICA IDENTITY DEFAULT;
UPDATE pk SET a = 104 WHERE a = 103;
DELETE FROM pk WHERE a = 104;
COMMIT;

-- a key of another shape: text, far right, uuid
CREATE TABLE shapes (v text, w text, u uuid, k text COLLATE "C", PRIMARY KEY (k, u));
INSERT INTO shapes VALUES ('v', NULL, '00000000-0000-0000-0000-000000000001', 'k'), (NULL, NULL, '00000000-0000-0000-0000-000000000002', '');
UPDATE shapes SET k = 'kk' WHERE k = 'k';
UPDATE shapes SET v = 'vv';
DELETE FROM shapes;
-- since 18
CREATE TABLE during (id int, span int4range, v text, PRIMARY KEY (id, span));
-- since 18
INSERT INTO during VALUES (1, '[1,5)', 'x');
-- since 18
UPDATE during SET id = 2;
UPDATE old.items SET id = 1000 + id WHERE id <= 3;
DELETE FROM old.items WHERE id IN (4, 1001);
