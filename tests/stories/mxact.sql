-- Rows that several transactions lock: their xmax is a multixact, in rows of tables and of catalogs.

CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent);
INSERT INTO parent VALUES (1, 'one'), (2, 'two'), (3, 'three');

-- session a
BEGIN;
INSERT INTO child VALUES (1, 1);
SELECT * FROM parent WHERE id = 2 FOR SHARE;
-- session b
BEGIN;
INSERT INTO child VALUES (2, 1);
SELECT * FROM parent WHERE id = 2 FOR SHARE;
-- an update that changes no key may pass the locks
UPDATE parent SET v = 'one, changed under locks' WHERE id = 1;
-- session a
INSERT INTO child VALUES (3, 1);
COMMIT;
-- session b
UPDATE parent SET v = 'and again' WHERE id = 1;
SAVEPOINT s;
SELECT * FROM parent WHERE id = 3 FOR UPDATE;
UPDATE parent SET v = 'lost' WHERE id = 3;
ROLLBACK TO s;
UPDATE parent SET v = 'kept' WHERE id = 3;
COMMIT;
-- session main
UPDATE parent SET id = 20 WHERE id = 2;
DELETE FROM parent WHERE id = 3;

-- a locked row is deleted by one of those that locked it
-- session a
BEGIN;
SELECT * FROM parent WHERE id = 20 FOR KEY SHARE;
-- session b
BEGIN;
SELECT * FROM parent WHERE id = 20 FOR KEY SHARE;
-- session a
COMMIT;
-- session b
DELETE FROM parent WHERE id = 20;
COMMIT;

-- rows of pg_class, locked by two and updated by one
-- session a
BEGIN;
SELECT relname FROM pg_class WHERE relname = 'child' FOR KEY SHARE;
-- session b
BEGIN;
SELECT relname FROM pg_class WHERE relname = 'child' FOR KEY SHARE;
ALTER TABLE child ADD COLUMN w int DEFAULT 9;
INSERT INTO child VALUES (4, 1, 4);
COMMIT;
-- session a
COMMIT;
-- session main
INSERT INTO child VALUES (5, 1, 5);
VACUUM (FREEZE) parent;
VACUUM (FREEZE) pg_class;
INSERT INTO child (id) VALUES (6);
