-- Rows of one table as values of another: fields are kept as they lay, short, padded or compressed.

CREATE TABLE source (id int PRIMARY KEY, t text, b bytea, n numeric);
CREATE TYPE pair AS (a int, b text);
INSERT INTO source VALUES (1, repeat('compressible ', 300), NULL, 1), (2, 'short', 'x', NULL), (3, repeat('y', 127), repeat('z', 126)::bytea, 1e300),
    (4, (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) i), NULL, 2),
    (5, (SELECT string_agg(md5(i::text) || repeat('z', 60), '') FROM generate_series(1, 200) i), repeat('q', 3000)::bytea, 3);
CREATE TABLE kept (id int PRIMARY KEY, whole source, p pair, many source[], pairs pair[]);
ALTER TABLE kept REPLICA IDENTITY FULL;
INSERT INTO kept SELECT id, source, ROW(id, t)::pair, ARRAY[source, NULL], ARRAY[ROW(id, t)::pair] FROM source;
UPDATE kept SET id = id + 10;
ALTER TABLE source DROP COLUMN t;
INSERT INTO kept (id, whole) SELECT id, source FROM source;
DELETE FROM kept;

-- as triggers do that write down what was
CREATE TABLE audit (id int GENERATED ALWAYS AS IDENTITY, before kept, after kept);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (before, after) VALUES (OLD, NEW); RETURN NEW; END $$;
CREATE TRIGGER audit AFTER UPDATE ON kept FOR EACH ROW EXECUTE FUNCTION audit();
INSERT INTO kept (id, p) VALUES (1, ROW(1, repeat('long ', 1000))), (2, ROW(2, 'short'));
UPDATE kept SET id = id + 1000;
ALTER TYPE pair ADD ATTRIBUTE c int;
UPDATE kept SET p.b = repeat('longer ', 1000);
