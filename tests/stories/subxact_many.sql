-- Subtransactions by the thousand, and a hundred deep: a transaction's record cannot name them all before it ends.

CREATE TABLE t (id int PRIMARY KEY, v text);

-- more than a backend keeps in shared memory (64), and than an assignment record names
DO $$ BEGIN
    FOR i IN 1 .. 1500 LOOP
        BEGIN
            INSERT INTO t VALUES (i, 'row ' || i);
            IF i % 7 = 0 THEN RAISE EXCEPTION 'never'; END IF;
        EXCEPTION WHEN raise_exception THEN
            UPDATE t SET v = v || '!' WHERE id = i - 1;
        END;
    END LOOP;
END $$;

CREATE FUNCTION deep(depth int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    BEGIN
        INSERT INTO t VALUES (10000 + depth, 'depth ' || depth);
        IF depth < 100 THEN PERFORM deep(depth + 1); END IF;
        IF depth % 30 = 29 THEN RAISE EXCEPTION 'never'; END IF;
    EXCEPTION WHEN raise_exception THEN
        INSERT INTO t VALUES (20000 + depth, 'caught at ' || depth);
    END;
END $$;
SELECT deep(1);

-- two of them beside each other, with definitions in between
-- session a
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 200 LOOP BEGIN INSERT INTO t VALUES (30000 + i, 'a'); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
-- session b
BEGIN;
DO $$ BEGIN FOR i IN 1 .. 200 LOOP BEGIN INSERT INTO t VALUES (40000 + i, 'b'); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
SAVEPOINT s;
CREATE TABLE made (id int, v text);
DO $$ BEGIN FOR i IN 1 .. 100 LOOP BEGIN INSERT INTO made VALUES (i, 'b'); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
ALTER TABLE made ADD w int DEFAULT 5;
INSERT INTO made VALUES (0, 'wide', 6);
-- session a
CHECKPOINT;
DO $$ BEGIN FOR i IN 1 .. 200 LOOP BEGIN UPDATE t SET v = 'a again' WHERE id = 30000 + i; EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
COMMIT;
-- session b
ROLLBACK TO s;
DO $$ BEGIN FOR i IN 1 .. 100 LOOP BEGIN DELETE FROM t WHERE id = 40000 + i; EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$;
COMMIT;
