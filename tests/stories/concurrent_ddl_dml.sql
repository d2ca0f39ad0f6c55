-- Definitions that change under an open transaction, where locks let them.

CREATE SCHEMA s;
CREATE TYPE s.light AS ENUM ('red', 'green');
CREATE TABLE s.t (id int PRIMARY KEY, l s.light, v text);
CREATE TABLE s.i (a int PRIMARY KEY, b int NOT NULL UNIQUE, v text);
INSERT INTO s.i VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'z'), (4, 40, 'zz');

-- session w
BEGIN;
INSERT INTO s.t VALUES (1, 'red', 'before');
-- session main
ALTER TYPE s.light RENAME VALUE 'red' TO 'crimson';
-- session w
INSERT INTO s.t VALUES (2, 'crimson', 'label renamed');
UPDATE s.t SET v = 'old row' WHERE id = 1;
-- session main
ALTER TYPE s.light ADD VALUE 'amber' BEFORE 'green';
-- session w
INSERT INTO s.t VALUES (3, 'amber', 'label added');
-- session main
ALTER TYPE s.light RENAME TO lamp;
-- session w
INSERT INTO s.t VALUES (4, 'green', 'type renamed');
-- session main
ALTER SCHEMA s RENAME TO r;
-- session w
INSERT INTO r.t VALUES (5, 'green', 'schema renamed');
-- session main
-- no rows of main's in r: a server keeps the names of schemas that it has read, and would show the new name in w's old rows too
CREATE TABLE r.made (id int PRIMARY KEY, v text);
-- session w
INSERT INTO r.made VALUES (2, 'made meanwhile');
-- session main
ALTER TABLE r.i REPLICA IDENTITY FULL;
-- session w
UPDATE r.i SET v = 'full' WHERE a = 1;
DELETE FROM r.i WHERE a = 2;
SAVEPOINT sp;
INSERT INTO r.t VALUES (6, 'green', 'never');
-- session main
ALTER TYPE r.lamp RENAME VALUE 'green' TO 'verdant';
-- session w
INSERT INTO r.t VALUES (7, 'verdant', 'never');
ROLLBACK TO sp;
INSERT INTO r.t VALUES (8, 'verdant', 'third name');
COMMIT;

-- replica identity, a column and a rename, between a transaction's first row and its first row of that table
-- session w
BEGIN;
INSERT INTO r.made VALUES (10, 'w begins');
-- session main
ALTER TABLE r.i REPLICA IDENTITY USING INDEX i_b_key;
ALTER TABLE r.i ADD COLUMN extra text DEFAULT 'extra';
ALTER TABLE r.i RENAME TO j;
-- session w
UPDATE r.j SET b = 31 WHERE a = 3;
DELETE FROM r.j WHERE a = 4;
INSERT INTO r.j VALUES (5, 50, 'v', 'e');
COMMIT;

-- both define, and one of them is taken back
-- session x
BEGIN;
CREATE TABLE x (id int PRIMARY KEY);
INSERT INTO x VALUES (1);
-- session y
BEGIN;
CREATE TABLE y (id int PRIMARY KEY);
INSERT INTO y VALUES (1);
-- session x
ALTER TABLE x ADD COLUMN v text;
INSERT INTO x VALUES (2, 'x');
-- session main
INSERT INTO old.items (id, label) VALUES (300, 'main');
-- session y
ALTER TABLE y ADD COLUMN v text;
INSERT INTO y VALUES (2, 'y');
ROLLBACK;
-- session x
ALTER TABLE x RENAME COLUMN v TO w;
INSERT INTO x VALUES (3, 'w');
-- session main
CREATE TABLE y (id bigint PRIMARY KEY, z bool);
INSERT INTO y VALUES (1, true);
-- session x
INSERT INTO y VALUES (2, false);
COMMIT;

-- a definition that commits after rows that another wrote while it was open
-- session d
BEGIN;
ALTER TYPE old.mood RENAME VALUE 'sad' TO 'gloomy';
-- session w
BEGIN;
INSERT INTO old.items (id, mood) VALUES (310, 'happy');
-- session d
ALTER SCHEMA r RENAME TO s;
-- session w
INSERT INTO r.made VALUES (11, 'still r');
-- session d
INSERT INTO s.made VALUES (12, 's for d');
COMMIT;
-- session w
INSERT INTO s.made VALUES (13, 's for all');
INSERT INTO old.items (id, mood) VALUES (311, 'gloomy');
COMMIT;
-- session main
CREATE INDEX CONCURRENTLY made_v ON s.made (v);
ALTER TABLE s.made SET (fillfactor = 50);
ALTER PUBLICATION standing ADD TABLE s.made;
UPDATE s.made SET id = 14 WHERE id = 13;
UPDATE s.made SET v = 'again' WHERE id = 11;

-- waiting for a lock: the row is of the new definition
-- session d
BEGIN;
ALTER TABLE s.made ADD COLUMN late int DEFAULT 5;
-- session w waits
INSERT INTO s.made VALUES (20, 'w waited', 6);
-- session d
INSERT INTO s.made VALUES (21, 'd', 7);
COMMIT;
-- session w
UPDATE s.made SET late = 8 WHERE id = 2;
