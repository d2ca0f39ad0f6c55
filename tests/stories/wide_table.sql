-- As many columns as a table may have, and rows with few of them.

DO $$ BEGIN
    EXECUTE 'CREATE TABLE w (' || (SELECT string_agg('c' || i || ' ' || CASE i % 4 WHEN 0 THEN 'int' WHEN 1 THEN 'bool' WHEN 2 THEN 'text' ELSE '"char"' END, ', ' ORDER BY i)
        FROM generate_series(1, 1600) i) || ')';
END $$;
INSERT INTO w (c4, c6, c1600) VALUES (1, 'few', 16);
INSERT INTO w DEFAULT VALUES;
DO $$ BEGIN
    EXECUTE 'INSERT INTO w SELECT ' || (SELECT string_agg(CASE i % 4 WHEN 0 THEN i::text WHEN 1 THEN '(' || i || ' % 3 = 0)' WHEN 2 THEN '''t''' ELSE '''c''' END, ', ' ORDER BY i)
        FROM generate_series(1, 1600) i);
END $$;
-- fails
ALTER TABLE w ADD COLUMN one_more int;
ALTER TABLE w DROP COLUMN c800;
INSERT INTO w (c799, c801) VALUES ('x', false);
ALTER TABLE w REPLICA IDENTITY FULL;
UPDATE w SET c6 = 'changed' WHERE c4 = 1;
DELETE FROM w WHERE c1 IS NULL;
