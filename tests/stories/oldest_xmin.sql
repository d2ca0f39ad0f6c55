-- Catalog rows die, are pruned and vacuumed away while a transaction is open whose rows need them. Nobody else writes such rows in between:
-- what a server prints then depends on what it happened to decode before (docs/fidelity.md).

CREATE TYPE basket AS (apples int, pears text);
CREATE TABLE harvest (id int PRIMARY KEY, fruit basket);
INSERT INTO harvest VALUES (1, (1, 'one'));

-- session slow
BEGIN;
INSERT INTO harvest VALUES (2, (2, 'two'));
-- session main
ALTER TYPE basket ADD ATTRIBUTE plums int;
CHECKPOINT;
VACUUM pg_attribute;
-- session slow
INSERT INTO harvest VALUES (3, (3, 'three', 33));
-- session main
ALTER TYPE basket DROP ATTRIBUTE pears;
VACUUM pg_attribute;
VACUUM pg_class;
VACUUM pg_type;
CHECKPOINT;
-- session slow
INSERT INTO harvest VALUES (5, (5, 55));
COMMIT;
-- session main
VACUUM FULL pg_attribute;
INSERT INTO harvest VALUES (4, (4, 44));
INSERT INTO harvest VALUES (6, (6, 66));

-- a table that is made, changed and dropped under it
-- session slow
BEGIN;
INSERT INTO harvest VALUES (7, NULL);
-- session main
CREATE TABLE brief (id int, v text);
INSERT INTO brief VALUES (1, 'brief');
ALTER TABLE brief DROP COLUMN v;
INSERT INTO brief VALUES (2);
DROP TABLE brief;
VACUUM pg_class;
VACUUM pg_attribute;
CHECKPOINT;
-- session slow
INSERT INTO harvest VALUES (8, NULL);
COMMIT;
