-- Definitions that change between rows, within transactions and across their ends; some are taken back.

CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'plain');
ALTER TABLE t ADD COLUMN n int;
INSERT INTO t VALUES (2, 'with n', 2);
ALTER TABLE t ADD COLUMN d text DEFAULT 'fallback' NOT NULL;
INSERT INTO t (id, v) VALUES (3, 'with d');
UPDATE t SET v = 'old row, new columns' WHERE id = 1;
ALTER TABLE t RENAME COLUMN v TO label;
INSERT INTO t VALUES (4, 'renamed column', 4, 'd');
ALTER TABLE t DROP COLUMN n;
INSERT INTO t VALUES (5, 'n is gone', 'd');
ALTER TABLE t RENAME TO tt;
UPDATE tt SET label = 'renamed table' WHERE id = 5;
CREATE SCHEMA elsewhere;
ALTER TABLE tt SET SCHEMA elsewhere;
DELETE FROM elsewhere.tt WHERE id = 4;

-- all in one transaction: each row as its table was then
BEGIN;
CREATE TABLE one (a int PRIMARY KEY);
INSERT INTO one VALUES (1);
ALTER TABLE one ADD COLUMN b text;
INSERT INTO one VALUES (2, 'b');
ALTER TABLE one RENAME COLUMN b TO c;
INSERT INTO one VALUES (3, 'c');
ALTER TABLE one DROP COLUMN c;
INSERT INTO one VALUES (4);
ALTER TABLE one ADD COLUMN d bigint DEFAULT 9;
INSERT INTO one VALUES (5);
ALTER TABLE one RENAME TO uno;
INSERT INTO uno VALUES (6);
ALTER TABLE uno SET SCHEMA elsewhere;
UPDATE elsewhere.uno SET a = 60 WHERE a = 6;
COMMIT;
UPDATE elsewhere.uno SET d = 10 WHERE a = 2;

-- taken back, wholly or in part
BEGIN;
ALTER TABLE old.items ADD COLUMN never int;
INSERT INTO old.items (id, label, never) VALUES (500, 'never', 1);
ROLLBACK;
INSERT INTO old.items (id, label) VALUES (501, 'no such column');
BEGIN;
INSERT INTO old.items (id, label) VALUES (502, 'before');
SAVEPOINT s;
ALTER TABLE old.items RENAME COLUMN label TO never;
INSERT INTO old.items (id, never) VALUES (503, 'never');
ROLLBACK TO s;
INSERT INTO old.items (id, label) VALUES (504, 'after');
SAVEPOINT s2;
ALTER TABLE old.items RENAME COLUMN label TO title;
INSERT INTO old.items (id, title) VALUES (505, 'title');
RELEASE s2;
INSERT INTO old.items (id, title) VALUES (506, 'title still');
COMMIT;
INSERT INTO old.items (id, title) VALUES (507, 'title for good');

-- the same name again
CREATE TABLE again (id int PRIMARY KEY, v text);
INSERT INTO again VALUES (1, 'first');
DROP TABLE again;
CREATE TABLE again (v text, id bigint PRIMARY KEY);
INSERT INTO again VALUES ('second', 1);
BEGIN;
DELETE FROM again;
DROP TABLE again;
CREATE TABLE again (id int PRIMARY KEY, w bool);
INSERT INTO again VALUES (1, true);
COMMIT;

-- written to, then dropped, in one transaction and in two
BEGIN;
INSERT INTO again VALUES (2, false);
DROP TABLE again;
COMMIT;
BEGIN;
CREATE TABLE fleeting (id int PRIMARY KEY);
INSERT INTO fleeting VALUES (1);
DROP TABLE fleeting;
COMMIT;

-- types
CREATE TYPE state AS ENUM ('new', 'done');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE job (id int PRIMARY KEY, s state, p positive);
INSERT INTO job VALUES (1, 'new', 1);
ALTER TYPE state ADD VALUE 'running' BEFORE 'done';
INSERT INTO job VALUES (2, 'running', 2);
ALTER TYPE state RENAME VALUE 'done' TO 'finished';
UPDATE job SET s = 'finished' WHERE id = 1;
ALTER TYPE state RENAME TO status;
INSERT INTO job VALUES (3, 'new', 3);
ALTER DOMAIN positive RENAME TO natural_number;
UPDATE job SET p = 30 WHERE id = 3;
BEGIN;
ALTER TYPE status RENAME VALUE 'new' TO 'fresh';
INSERT INTO job VALUES (4, 'fresh', 4);
ALTER TYPE status SET SCHEMA elsewhere;
INSERT INTO job VALUES (5, 'fresh', 5);
ROLLBACK;
INSERT INTO job VALUES (6, 'new', 6);

-- generated columns, identity, many columns
CREATE TABLE gen (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);
INSERT INTO gen (a) VALUES (1), (2);
UPDATE gen SET a = 5 WHERE id = 1;
-- since 18
CREATE TABLE virt (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) VIRTUAL, z text);
-- since 18
INSERT INTO virt (id, a, z) VALUES (1, 4, 'z');
-- since 18
UPDATE virt SET a = 5;
ALTER TABLE gen ALTER COLUMN twice DROP EXPRESSION;
INSERT INTO gen (a, twice) VALUES (3, 7);

-- indexes, triggers, a key that moves
CREATE TABLE keyed (a int PRIMARY KEY, b int NOT NULL UNIQUE, v text);
INSERT INTO keyed VALUES (1, 1, 'x'), (2, 2, 'y');
ALTER TABLE keyed DROP CONSTRAINT keyed_pkey;
-- without a key there is nothing to say what is gone
DELETE FROM keyed WHERE a = 1;
ALTER TABLE keyed ADD PRIMARY KEY (b);
DELETE FROM keyed WHERE a = 2;
CREATE FUNCTION twofold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO elsewhere.uno VALUES (NEW.b + 100); RETURN NEW; END $$;
CREATE TRIGGER twofold BEFORE INSERT ON keyed FOR EACH ROW EXECUTE FUNCTION twofold();
INSERT INTO keyed VALUES (3, 3, 'z');
COMMENT ON TABLE keyed IS 'a comment';
INSERT INTO keyed VALUES (4, 4, 'commented');
DROP SCHEMA elsewhere CASCADE;
UPDATE keyed SET v = 'the schema is gone' WHERE a = 3;
