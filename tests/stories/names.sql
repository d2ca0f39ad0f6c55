-- Values that are names of things: as they were called when the row was written, in one transaction and in several.

CREATE TABLE n (id int PRIMARY KEY, c regclass, t regtype, p regproc, pp regprocedure, o regrole, s regnamespace, a aclitem, cs regclass[]);
ALTER TABLE n REPLICA IDENTITY FULL;
CREATE TABLE a (x int);
INSERT INTO n (id, c, t, cs) VALUES (1, 'a', 'a', '{a,n,pg_class}');
ALTER TABLE a RENAME TO b;
INSERT INTO n (id, c, t, cs) VALUES (2, 'b', 'b', '{b,NULL}');
UPDATE n SET id = 11 WHERE id = 1;
DROP TABLE b;
UPDATE n SET id = 12 WHERE id = 2;
CREATE TABLE a (y int);
INSERT INTO n (id, c) VALUES (3, 'a');

-- its own, some of it taken back
BEGIN;
CREATE TABLE own (x int);
INSERT INTO n (id, c) VALUES (20, 'own');
ALTER TABLE own RENAME TO "Own";
INSERT INTO n (id, c) VALUES (21, '"Own"');
SAVEPOINT s;
CREATE SCHEMA there;
ALTER TABLE "Own" SET SCHEMA there;
INSERT INTO n (id, c, s) VALUES (22, 'there."Own"', 'there');
ROLLBACK TO s;
INSERT INTO n (id, c) VALUES (23, '"Own"');
DROP TABLE "Own";
UPDATE n SET id = id + 100 WHERE id >= 20;
COMMIT;
INSERT INTO n (id, c) VALUES (24, 'a');

-- functions are called otherwise once there is another of their name; roles belong to all databases
CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
INSERT INTO n (id, p, pp) VALUES (30, 'f', 'f(int)');
CREATE FUNCTION f(text) RETURNS int LANGUAGE sql AS 'SELECT 1';
UPDATE n SET id = 31 WHERE id = 30;
DROP FUNCTION f(text);
ALTER FUNCTION f(int) RENAME TO "F";
UPDATE n SET id = 32 WHERE id = 31;
CREATE ROLE somebody;
INSERT INTO n (id, o, a) VALUES (40, 'somebody', makeaclitem('somebody'::regrole, 'postgres'::regrole, 'SELECT', false));
ALTER ROLE somebody RENAME TO "some body";
UPDATE n SET id = 41 WHERE id = 40;
DROP ROLE "some body";
UPDATE n SET id = 42 WHERE id = 41;

-- side by side
-- session one
BEGIN;
CREATE TABLE mine (x int);
INSERT INTO n (id, c) VALUES (50, 'mine');
-- session two
BEGIN;
INSERT INTO n (id, c) VALUES (60, 'a');
-- session one
INSERT INTO n (id, c) VALUES (51, 'mine');
COMMIT;
-- session two
INSERT INTO n (id, c) VALUES (61, 'mine');
ALTER TABLE mine RENAME TO theirs;
INSERT INTO n (id, c) VALUES (62, 'theirs');
-- session main
INSERT INTO n (id, c) VALUES (70, 'mine');
-- session two
COMMIT;
-- session main
INSERT INTO n (id, c) VALUES (71, 'theirs');
VACUUM FULL pg_class;
CREATE SCHEMA named;
ALTER TABLE theirs SET SCHEMA named;
INSERT INTO n (id, c, s) VALUES (72, 'named.theirs', 'named');
CREATE TABLE named.a (x int);
INSERT INTO n (id, c) VALUES (73, 'named.a'), (74, 'a');
DROP TABLE a;
DELETE FROM n;
