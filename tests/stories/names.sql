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

-- inside others; each UPDATE says again, before and after, what everything is called
CREATE TYPE pair AS (c regclass, t regtype);
CREATE DOMAIN table_name AS regclass;
CREATE TABLE m (id int PRIMARY KEY, c regclass[], t regtype[], pp regprocedure[], op regoper, oo regoperator, cfg regconfig, dict regdictionary,
    coll regcollation, s regnamespace, both_of pair, d table_name, ds table_name[]);
ALTER TABLE m REPLICA IDENTITY FULL;
CREATE SCHEMA aside;
CREATE TABLE kept (x int);
CREATE TABLE aside.kept (x int);
CREATE TYPE colour AS ENUM ('red');
CREATE DOMAIN aside.colour AS int;
INSERT INTO m (id, c, t, both_of, d, ds) VALUES (1, '{kept,aside.kept,m}', '{colour,colour[],aside.colour,kept,aside.kept[]}', '(kept,aside.kept)', 'kept', '{aside.kept,kept}');

-- of one name in two schemas on the path: the first hides the second until it is gone
CREATE DOMAIN pg_catalog.colour AS text;
CREATE FUNCTION pg_catalog.twice(pg_catalog.colour) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION public.twice(public.colour) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION public.twice(public.colour[]) RETURNS int LANGUAGE sql AS 'SELECT 1';
UPDATE m SET t = t || 'pg_catalog.colour[]'::regtype,
    pp = '{pg_catalog.twice(pg_catalog.colour),public.twice(public.colour),public.twice(public.colour[])}' WHERE id = 1;
DROP FUNCTION public.twice(public.colour[]);
UPDATE m SET id = id;
ALTER DOMAIN aside.colour RENAME TO shade;
UPDATE m SET id = id;
DROP DOMAIN pg_catalog.colour CASCADE;
UPDATE m SET id = id;
ALTER TYPE public.colour RENAME TO "Colour";
UPDATE m SET id = id;
BEGIN;
CREATE DOMAIN pg_catalog."Colour" AS int;
UPDATE m SET id = id;
SAVEPOINT s;
ALTER TYPE public."Colour" SET SCHEMA aside;
UPDATE m SET id = id;
ROLLBACK TO s;
UPDATE m SET id = id;
DROP DOMAIN pg_catalog."Colour";
UPDATE m SET id = id;
COMMIT;
DROP TYPE public."Colour" CASCADE;
UPDATE m SET id = id;

-- overloads that come and go, of functions and operators
CREATE FUNCTION g(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION aside.g(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION public.plus(int, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE OPERATOR public.<+> (LEFTARG = int, RIGHTARG = int, FUNCTION = plus);
INSERT INTO m (id, pp, op, oo) VALUES (2, '{g(int),aside.g(int)}', '<+>', '<+>(int,int)');
INSERT INTO n (id, p, pp) VALUES (80, 'aside.g', 'g(int)'), (81, 'g', 'aside.g(int)');
CREATE FUNCTION public.plus(kept, int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE OPERATOR public.<+> (LEFTARG = kept, RIGHTARG = int, FUNCTION = plus);
CREATE FUNCTION g(aside.kept) RETURNS int LANGUAGE sql AS 'SELECT 1';
UPDATE n SET id = id;
UPDATE m SET pp = pp || 'g(aside.kept)'::regprocedure WHERE id = 2;
INSERT INTO m (id, oo) VALUES (3, '<+>(kept,int)');
ALTER TABLE kept RENAME TO held;
UPDATE m SET id = id;
DROP OPERATOR public.<+> (held, int);
DROP FUNCTION g(int);
UPDATE n SET id = id;
UPDATE m SET id = id;

-- schemas: one that is renamed, one that only gets other privileges, and the one on the path
INSERT INTO m (id, cfg, dict, coll, s) VALUES (4, 'simple', 'simple', '"C"', 'aside');
CREATE TEXT SEARCH CONFIGURATION aside.words (COPY = simple);
CREATE TEXT SEARCH DICTIONARY public.words (TEMPLATE = simple);
CREATE COLLATION aside.letters FROM "C";
UPDATE m SET cfg = 'aside.words', dict = 'words', coll = 'aside.letters' WHERE id = 4;
BEGIN;
ALTER SCHEMA aside RENAME TO "Beside";
UPDATE m SET id = id;
SAVEPOINT s;
CREATE TABLE "Beside".more (x int);
INSERT INTO m (id, d) VALUES (5, '"Beside".more');
ROLLBACK TO s;
INSERT INTO m (id, d) VALUES (5, '"Beside".kept');
COMMIT;
GRANT USAGE ON SCHEMA public, "Beside" TO PUBLIC;
UPDATE m SET id = id;
BEGIN;
REVOKE USAGE ON SCHEMA "Beside" FROM PUBLIC;
TRUNCATE held;
UPDATE m SET id = id;
COMMIT;
ALTER SCHEMA public RENAME TO private;
CREATE SCHEMA public;
CREATE TABLE public.held (x int);
UPDATE private.m SET d = 'public.held'::regclass WHERE id = 5;
DROP TABLE public.held;
DROP SCHEMA public;
ALTER SCHEMA private RENAME TO public;
UPDATE m SET id = id;
DROP SCHEMA "Beside" CASCADE;
UPDATE m SET id = id;

-- of one name again and again, in one transaction and in several; dropped by one that goes on
CREATE TABLE scratch (x int, y text);
INSERT INTO m (id, d, t) VALUES (10, 'scratch'::regclass, '{scratch,scratch[]}');
DROP TABLE scratch;
CREATE TABLE scratch (x int, y text);
INSERT INTO m (id, d, t) VALUES (11, 'scratch'::regclass, '{scratch,scratch[]}');
UPDATE m SET id = id WHERE id >= 10;
DROP TABLE scratch;
BEGIN;
CREATE TABLE scratch (x int);
INSERT INTO m (id, d) VALUES (12, 'scratch'::regclass);
DROP TABLE scratch;
INSERT INTO m (id, c) VALUES (13, '{m}');
CREATE TABLE scratch (x int);
INSERT INTO m (id, d) VALUES (14, 'scratch'::regclass);
COMMIT;
UPDATE m SET id = id WHERE id >= 10;
-- session one
BEGIN;
DROP TABLE scratch;
INSERT INTO m (id, c) VALUES (20, '{m}');
UPDATE m SET id = id WHERE id = 14;
-- session two
UPDATE m SET id = id WHERE id = 13;
CREATE TABLE public.other (x int);
-- session one
INSERT INTO m (id, d) VALUES (21, 'other'::regclass);
COMMIT;
-- session main
UPDATE m SET id = id WHERE id >= 10;
DELETE FROM m;
