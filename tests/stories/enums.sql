-- Labels that come, and are renamed, between and under transactions that use the type.

CREATE TYPE size AS ENUM ('small', 'large');
CREATE TABLE shirts (id int PRIMARY KEY, s size, all_sizes size[], d old.mood);
INSERT INTO shirts VALUES (1, 'small', '{small,large}', 'ok');
ALTER TYPE size ADD VALUE 'medium' BEFORE 'large';
INSERT INTO shirts VALUES (2, 'medium', '{small,medium,large}', 'sad');
ALTER TYPE size ADD VALUE IF NOT EXISTS 'medium';
ALTER TYPE size RENAME VALUE 'large' TO 'LARGE';
UPDATE shirts SET all_sizes = all_sizes || '{LARGE}';

-- session open
BEGIN;
INSERT INTO shirts VALUES (3, 'small', NULL, NULL);
-- session main
ALTER TYPE size ADD VALUE 'it''s huge' AFTER 'LARGE';
INSERT INTO shirts VALUES (4, 'it''s huge', '{"it''s huge",NULL}', NULL);
VACUUM FULL pg_enum;
-- session open
INSERT INTO shirts VALUES (5, 'LARGE', '{medium}', 'happy');
COMMIT;

-- a type of one's own transaction
-- session main
BEGIN;
CREATE TYPE colour AS ENUM ('red', 'blue');
ALTER TABLE shirts ADD COLUMN c colour;
ALTER TYPE colour ADD VALUE 'green';
INSERT INTO shirts (id, c) VALUES (6, 'blue');
ALTER TYPE colour RENAME VALUE 'blue' TO 'azure';
INSERT INTO shirts (id, c) VALUES (7, 'azure');
SAVEPOINT s;
ALTER TYPE colour RENAME VALUE 'azure' TO 'lost';
INSERT INTO shirts (id, c) VALUES (8, 'lost');
ROLLBACK TO s;
INSERT INTO shirts (id, c) VALUES (8, 'azure');
COMMIT;
ALTER TABLE shirts ALTER COLUMN c TYPE text;
DROP TYPE colour;
INSERT INTO shirts (id, c) VALUES (9, 'text now');
ALTER TYPE size RENAME TO girth;
INSERT INTO shirts VALUES (10, 'medium');
DELETE FROM shirts WHERE id < 4;
