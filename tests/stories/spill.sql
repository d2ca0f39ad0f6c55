-- Subtransactions, each with more changes than a server keeps in memory, in every order of ending.

CREATE TABLE t (id int, v text);

-- all of it in subtransactions, one after another
BEGIN;
SAVEPOINT a;
INSERT INTO t SELECT i, 'a' FROM generate_series(1, 4500) i;
SAVEPOINT b;
INSERT INTO t SELECT i, 'b' FROM generate_series(1, 4500) i;
RELEASE b;
RELEASE a;
COMMIT;

-- nested, the large one innermost, and then rolled back to the middle
BEGIN;
INSERT INTO t VALUES (1, 'top');
SAVEPOINT a;
INSERT INTO t VALUES (2, 'a');
SAVEPOINT b;
INSERT INTO t SELECT i, 'b' FROM generate_series(1, 4500) i;
SAVEPOINT c;
INSERT INTO t SELECT i, 'lost' FROM generate_series(1, 4500) i;
ROLLBACK TO c;
INSERT INTO t VALUES (3, 'after c');
ROLLBACK TO a;
INSERT INTO t VALUES (4, 'after a');
COMMIT;

-- two large transactions, row by row beside each other, the first to begin last to end
-- session x
BEGIN;
INSERT INTO t SELECT i, 'x' FROM generate_series(1, 3000) i;
-- session y
BEGIN;
INSERT INTO t SELECT i, 'y' FROM generate_series(1, 3000) i;
-- session x
SAVEPOINT s;
INSERT INTO t SELECT i, 'x' FROM generate_series(3001, 6000) i;
-- session main
CREATE TABLE between (id int);
INSERT INTO between VALUES (1);
-- session y
INSERT INTO t SELECT i, 'y' FROM generate_series(3001, 6000) i;
COMMIT;
-- session main
INSERT INTO between VALUES (2);
-- session x
RELEASE s;
INSERT INTO between VALUES (3);
COMMIT;
