-- Rows of partitioned tables are rows of their leaves.

CREATE TABLE p (id int, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE p_eu PARTITION OF p FOR VALUES IN ('eu');
CREATE TABLE p_us (v text, gone int, region text NOT NULL, id int NOT NULL);
ALTER TABLE p_us DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p_us FOR VALUES IN ('us');
CREATE TABLE p_rest PARTITION OF p DEFAULT PARTITION BY RANGE (id);
CREATE TABLE p_rest_low PARTITION OF p_rest FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE p_rest_high PARTITION OF p_rest FOR VALUES FROM (100) TO (MAXVALUE);

INSERT INTO p VALUES (1, 'eu', 'a'), (2, 'us', 'b'), (3, 'as', 'c'), (300, 'af', 'd');
UPDATE p SET v = v || '!' WHERE id < 3;
-- moved
UPDATE p SET region = 'us' WHERE id = 1;
UPDATE p SET id = 400 WHERE id = 3;
UPDATE p_us SET v = 'direct' WHERE id = 2;
DELETE FROM p WHERE id = 300;

BEGIN;
ALTER TABLE p DETACH PARTITION p_us;
INSERT INTO p_us (id, region, v) VALUES (5, 'free', 'detached');
INSERT INTO p VALUES (6, 'us', 'to the default');
ALTER TABLE p_us ADD COLUMN extra int;
INSERT INTO p_us (id, region, v, extra) VALUES (7, 'free', 'extra', 7);
COMMIT;
CREATE TABLE p_new PARTITION OF p FOR VALUES IN ('new');
INSERT INTO p VALUES (8, 'new', 'new');
ALTER TABLE p ADD COLUMN n int DEFAULT 3;
INSERT INTO p VALUES (9, 'eu', 'n', 9), (10, 'new', 'n', 10);
ALTER TABLE p DETACH PARTITION p_rest;
ALTER TABLE p DETACH PARTITION p_new CONCURRENTLY;
INSERT INTO p_rest VALUES (12, 'free', 'alone', 12);
ALTER TABLE p ATTACH PARTITION p_rest DEFAULT;
INSERT INTO p_new VALUES (11, 'new', 'n', 11);
DROP TABLE p_new;
UPDATE p SET id = id + 1000 WHERE region = 'eu';

-- attached while another transaction is open
-- session w
BEGIN;
INSERT INTO p VALUES (20, 'eu', 'w');
-- session main
CREATE TABLE p_af (LIKE p INCLUDING ALL);
INSERT INTO p_af VALUES (500, 'af', 'alone');
-- session w
INSERT INTO p_af VALUES (501, 'af', 'alone too');
COMMIT;
-- session main
DELETE FROM p WHERE region = 'af';
ALTER TABLE p ATTACH PARTITION p_af FOR VALUES IN ('af');
INSERT INTO p VALUES (502, 'af', 'attached');
INSERT INTO p VALUES (502, 'af', 'conflict') ON CONFLICT (id, region) DO UPDATE SET v = excluded.v;
-- since 15
MERGE INTO p USING (VALUES (502, 'af'), (503, 'af')) s (id, region) ON p.id = s.id AND p.region = s.region
    WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.region, 'merged in');
DELETE FROM p;
-- inheritance of the old kind
CREATE TABLE base (id int PRIMARY KEY, v text);
CREATE TABLE derived (w int) INHERITS (base);
INSERT INTO base VALUES (1, 'base');
INSERT INTO derived VALUES (2, 'derived', 2);
UPDATE base SET v = 'both';
DELETE FROM base;
DROP TABLE p;
