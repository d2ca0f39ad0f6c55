-- Names that must be quoted, and types that must be qualified.

CREATE TABLE "Mixed" ("Id" int PRIMARY KEY, "with space" text, "select" int, "quo""te" text, _under int, "1st" int, "naïve" text, "dollar$" int);
INSERT INTO "Mixed" VALUES (1, 'a', 2, 'b', 3, 4, 'c', 5);
UPDATE "Mixed" SET "Id" = 2;
DELETE FROM "Mixed";
CREATE SCHEMA "Odd Schema";
CREATE TABLE "Odd Schema"."table" ("user" int PRIMARY KEY, "order" text, "end" int, "name" text, "value" int, "time" time, "between" int, "year" int);
INSERT INTO "Odd Schema"."table" VALUES (1, 'o', 1, 'n', 2, '10:00', 3, 4);
UPDATE "Odd Schema"."table" SET "user" = 3;
CREATE TABLE "Odd Schema"."tabelle äöü 漢字 😀" ("spalte ß" int PRIMARY KEY);
INSERT INTO "Odd Schema"."tabelle äöü 漢字 😀" VALUES (1);
TRUNCATE "Odd Schema"."tabelle äöü 漢字 😀", "Mixed";

CREATE TYPE "Odd Schema"."Mood" AS ENUM ('A b', 'c''d');
CREATE TYPE "Odd Schema".plain AS ENUM ('x');
CREATE TYPE "table" AS ENUM ('y');
CREATE TYPE "Upper" AS ENUM ('z');
CREATE DOMAIN "Odd Schema"."int" AS int;
-- a type hidden by one of pg_catalog
CREATE TYPE public.text AS ENUM ('not text');
CREATE TABLE typed (id int PRIMARY KEY, a "Odd Schema"."Mood", b "Odd Schema".plain, c "table", d "Upper", e "Odd Schema"."int", f public.text,
    g "Odd Schema"."Mood"[], h "table"[], i public.text[]);
INSERT INTO typed VALUES (1, 'A b', 'x', 'y', 'z', 4, 'not text', '{"A b",c''d}', '{y}', '{"not text"}');
ALTER SCHEMA "Odd Schema" RENAME TO even;
INSERT INTO typed VALUES (2, 'c''d', 'x', 'y', 'z', 4, 'not text', '{}', '{}', NULL);
ALTER TYPE "Upper" RENAME TO lower;
INSERT INTO typed VALUES (3, 'c''d', 'x', 'y', 'z', 4, 'not text', '{}', '{}', NULL);
ALTER TYPE even.plain SET SCHEMA public;
INSERT INTO typed VALUES (4, 'c''d', 'x', 'y', 'z', 4, 'not text', '{}', '{}', NULL);
CREATE TABLE all_words (id int PRIMARY KEY, "authorization" int, "left" int, "setof" int, "json" int, "xmlserialize" int, "abort" int, "coalesce" int, "a-b" int, "A" int, "a.b" int);
INSERT INTO all_words VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
CREATE TABLE "sixty-three bytes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" ("Sixty-three bytes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" int);
INSERT INTO "sixty-three bytes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" VALUES (1);
CREATE SCHEMA pg;
CREATE TABLE pg.t (id int, c char(3), v varchar, b bit(3), q "char");
INSERT INTO pg.t VALUES (1, 'c', 'v', B'101', 'q');
