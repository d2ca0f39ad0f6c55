-- What is done with the rows of calls and views; `GETS` stands for a call of pg_logical_slot_peek_changes.
SELECT count(*), min(lsn), max(lsn) FROM GETS;
SELECT data FROM GETS WHERE data LIKE 'table%' ORDER BY lsn DESC LIMIT 2;
SELECT xid::text, count(*) AS n, string_agg(data, ';' ORDER BY lsn) FROM GETS GROUP BY xid::text HAVING count(*) > 2 ORDER BY 2, 3;
SELECT lsn::text || 'x' AS a, lsn = '0/1' AS b, lsn > '0/1'::pg_lsn AS c, lsn - '0/1' AS d, lsn + 16 - lsn AS e FROM GETS LIMIT 3;
SELECT c.data, c.ordinality FROM GETS WITH ORDINALITY c WHERE c.ordinality BETWEEN 2 AND 3;
SELECT x, y, z FROM GETS AS c(x, y, z) WHERE y IN (SELECT xid FROM GETS q WHERE data LIKE 'BEGIN%') ORDER BY x, z LIMIT 2;
WITH c AS (SELECT * FROM GETS) SELECT a.xid, b.data FROM c a JOIN c b USING (lsn, xid) WHERE a.data LIKE 'COMMIT%';
SELECT upper(left(data, 5)) AS u, length(data), substring(data from 1 for 3), position('E' in data), split_part(data, ' ', 2), trim('  x '),
replace(data, 'BEGIN', 'b') FROM GETS ORDER BY lsn, data LIMIT 2;
SELECT CASE WHEN lsn > '0/1' THEN lsn ELSE '0/2' END, coalesce(lsn, '0/0'), greatest(lsn, '0/1'), nullif(xid, 0) FROM GETS LIMIT 1;
SELECT row_number() OVER (ORDER BY lsn, data), lag(lsn) OVER (ORDER BY lsn, data) FROM GETS LIMIT 3;
SELECT * FROM GETS a WHERE EXISTS (SELECT 1 FROM GETS b WHERE b.xid = a.xid AND b.data LIKE 'COMMIT%') LIMIT 2;
SELECT pg_logical_slot_peek_changes('a', NULL, 1);
SELECT DISTINCT lsn FROM GETS ORDER BY lsn DESC;
SELECT data FROM GETS UNION SELECT 'x' ORDER BY 1 LIMIT 2;
SELECT 7/2, 7%3, -7/2, 1.5 + 1, 'a' || 'b', 1 = 1, NOT true, NULL IS NULL;
SELECT 1 AS a, 'x', NULL;
VALUES (1, 'a'), (2, 'b');
SELECT data, lsn FROM pg_logical_slot_peek_binary_changes('a', NULL, NULL) LIMIT 2;
SELECT encode(data, 'hex'), length(data), data = '\x424547494e20373330'::bytea FROM pg_logical_slot_peek_binary_changes('a', NULL, NULL)
LIMIT 1;
SELECT slot_name, database = current_database(), active IS TRUE, temporary::text FROM pg_replication_slots;
SELECT pg_wal_lsn_diff(max(lsn), min(lsn)), max(lsn) - min(lsn) AS d FROM GETS;
SELECT * FROM (SELECT slot_name, plugin FROM pg_replication_slots) q(a, b) WHERE a = 'a';
SELECT (SELECT max(slot_name) FROM pg_replication_slots), (SELECT count(*) FROM pg_replication_slots WHERE slot_name = s.slot_name) FROM
pg_replication_slots s;
SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots AS r;
SELECT data FROM GETS ORDER BY lsn OFFSET 1 LIMIT 1;
SELECT sum(length(data)), bool_and(xid = 0), every(lsn > '0/0') FROM GETS;
SELECT xid, xid::text, xid = '730', lsn <> ALL (ARRAY['0/1'::pg_lsn]) FROM GETS LIMIT 1;
SELECT lsn IN ('0/1', '0/2'), lsn BETWEEN '0/1' AND 'FF/1', lsn IS DISTINCT FROM NULL FROM GETS LIMIT 1;
SELECT x FROM (VALUES (2), (NULL), (1)) v(x) ORDER BY x DESC;
SELECT 1e3, 1.10, 12345678901, 'x'::text, 5::int8, true, '0/A'::pg_lsn, '12'::int;
SELECT count(*) FILTER (WHERE xid = 0), count(DISTINCT lsn) > 2 FROM GETS;
SELECT extra, lsn FROM (SELECT lsn, 'x' AS extra FROM GETS) q LIMIT 1;
SELECT a.*, 1 AS one FROM pg_logical_slot_peek_changes(slot_name => 'a', upto_lsn => NULL, upto_nchanges => 2,
VARIADIC options => '{}') a;
SELECT data FROM pg_logical_slot_peek_changes('a', NULL, NULL, VARIADIC ARRAY['include-xids', '0']);
SELECT data FROM pg_logical_slot_peek_changes('a', NULL, NULL, VARIADIC '{include-xids,0}');
SELECT data FROM pg_logical_slot_peek_changes('a', pg_current_wal_lsn(), NULL::int, 'skip-empty-xacts', '1');
SELECT x FROM pg_replication_origin_oid('none') AS x;
