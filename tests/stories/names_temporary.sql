-- Values that are names of temporary things, whose schema is numbered by the server process that made them.
-- story of one cluster

CREATE TABLE m (id int PRIMARY KEY, c regclass, t regtype[], s regnamespace);
ALTER TABLE m REPLICA IDENTITY FULL;
CREATE TEMP TABLE scratch (x int, y text);
INSERT INTO m VALUES (1, 'scratch', '{scratch,scratch[]}', (SELECT relnamespace FROM pg_class WHERE relname = 'scratch'));
DROP TABLE scratch;
CREATE TEMP TABLE scratch (x int, y text);
INSERT INTO m VALUES (2, 'scratch', '{scratch,scratch[]}');
CREATE TABLE public.scratch (x int, y text);
INSERT INTO m VALUES (3, 'public.scratch', '{public.scratch,public.scratch[],scratch}');
DROP TABLE scratch;
CREATE TEMP TABLE scratch (x int, y text);
INSERT INTO m VALUES (4, 'scratch', '{scratch,scratch[]}');
UPDATE m SET id = id;

-- gone with the transaction that made it, and made by one that goes on
BEGIN;
DROP TABLE scratch;
CREATE TEMP TABLE scratch (x int) ON COMMIT DROP;
INSERT INTO m VALUES (5, 'scratch', '{scratch,scratch[]}');
SAVEPOINT s;
ALTER TABLE scratch RENAME TO "Scratch";
INSERT INTO m VALUES (6, '"Scratch"');
ROLLBACK TO s;
INSERT INTO m VALUES (7, 'scratch');
UPDATE m SET id = id;
COMMIT;
UPDATE m SET id = id;

-- of two sessions
-- session one
CREATE TEMP TABLE scratch (x int);
BEGIN;
INSERT INTO m VALUES (8, 'scratch');
-- session main
CREATE TEMP TABLE scratch (x int);
INSERT INTO m VALUES (9, 'scratch');
-- session one
DROP TABLE scratch;
UPDATE m SET id = id WHERE id = 8;
COMMIT;
-- session one ends
-- session main
UPDATE m SET id = id;
DELETE FROM m;
