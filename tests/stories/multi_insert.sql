-- COPY: many rows in one record.

CREATE TABLE m (id int PRIMARY KEY, v text, n numeric DEFAULT 1.5);
COPY m (id, v) FROM PROGRAM 'seq 1 1500 | sed "s/.*/&\trow &/"';
COPY m FROM STDIN;
2000	\N	0
2001	tab\there	-1.25
2002		1e10
\.
UPDATE m SET v = 'updated' WHERE id % 500 = 0;

BEGIN;
COPY m (id, v) FROM PROGRAM 'seq 3000 3300 | sed "s/.*/&\tin a transaction &/"';
DELETE FROM m WHERE id BETWEEN 3000 AND 3010;
COPY m (id, v) FROM PROGRAM 'seq 3000 3010 | sed "s/.*/&\tagain &/"';
SAVEPOINT s;
COPY m (id, v) FROM PROGRAM 'seq 4000 4100 | sed "s/.*/&\tnever &/"';
ROLLBACK TO s;
COMMIT;

-- new in this transaction; frozen
BEGIN;
CREATE TABLE fresh (id int, v text);
COPY fresh FROM PROGRAM 'seq 1 300 | sed "s/.*/&\tfresh &/"' WITH (FREEZE);
COMMIT;

-- into partitions, and with a trigger
CREATE TABLE p (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE p_low (v text, id int);
ALTER TABLE p ATTACH PARTITION p_low FOR VALUES FROM (0) TO (100);
CREATE TABLE p_high PARTITION OF p FOR VALUES FROM (100) TO (1000);
COPY p FROM PROGRAM 'seq 50 150 | sed "s/.*/&\tpart &/"';

-- wide rows, few to a page; and one alone
CREATE TABLE wide (id int, v text);
COPY wide FROM PROGRAM 'for i in 1 2 3 4 5 6 7 8 9 10; do printf "$i\t%01500d\n" $i; done';
COPY wide FROM STDIN;
11	alone
\.
-- rows that all fail
-- fails
COPY m (id) FROM PROGRAM 'seq 1499 1600';
INSERT INTO m (id) SELECT i FROM generate_series(5000, 5020) i;
