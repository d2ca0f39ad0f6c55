-- Transactions: one statement, several statements, several tables, none that lasts, and transactions that overlap.

CREATE TABLE a (id int PRIMARY KEY, v text);
CREATE TABLE b (id int PRIMARY KEY, a_id int REFERENCES a, v text);

INSERT INTO a VALUES (1, 'one');
UPDATE a SET v = 'uno' WHERE id = 1;
UPDATE a SET id = 10 WHERE id = 1;
DELETE FROM a WHERE id = 10;
-- nothing to do
DELETE FROM a WHERE id = 10;

BEGIN;
INSERT INTO a VALUES (1, 'one'), (2, 'two'), (3, NULL);
INSERT INTO b VALUES (1, 1, 'first'), (2, 2, 'second');
UPDATE a SET v = v || '!';
DELETE FROM b WHERE id = 2;
COMMIT;

-- a transaction rolled back, and one that fails
BEGIN;
INSERT INTO a VALUES (4, 'never');
UPDATE b SET v = 'never';
ROLLBACK;

BEGIN;
INSERT INTO a VALUES (5, 'never');
-- fails
INSERT INTO a VALUES (1, 'duplicate');
ROLLBACK;

-- emitted in order of commit, not of beginning
-- session slow
BEGIN;
INSERT INTO a VALUES (20, 'slow, began first');

-- session quick
BEGIN;
INSERT INTO a VALUES (21, 'quick, began second');
COMMIT;

-- session slow
INSERT INTO a VALUES (22, 'slow, again');

-- session quick
INSERT INTO a VALUES (23, 'quick, alone');

-- session slow
UPDATE a SET v = 'slow, updates what quick wrote' WHERE id = 21;
COMMIT;

-- three at once; the one in the middle is rolled back, and a checkpoint falls between
-- session x
BEGIN;
INSERT INTO b VALUES (30, NULL, 'x');
-- session y
BEGIN;
INSERT INTO b VALUES (31, NULL, 'y');
-- session z
BEGIN;
INSERT INTO b VALUES (32, NULL, 'z');
-- session main
CHECKPOINT;
-- session y
ROLLBACK;
-- session z
INSERT INTO old.items (id, label) VALUES (1001, 'z writes to an old table');
COMMIT;
-- session x
DELETE FROM old.items WHERE id = 1;
UPDATE old.items SET mood = 'happy', price = price + 1 WHERE id = 2;
COMMIT;
