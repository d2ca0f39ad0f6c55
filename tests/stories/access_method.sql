-- A table access method of another name: what it writes to WAL are heap records, and the server decodes them.

CREATE ACCESS METHOD heap_too TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE t (id int PRIMARY KEY, v text) USING heap_too;
INSERT INTO t VALUES (1, 'one'), (2, repeat(md5('toast'), 500));
UPDATE t SET id = 10 WHERE id = 1;
CREATE TABLE plain (id int PRIMARY KEY);
INSERT INTO plain VALUES (1);
-- since 15
ALTER TABLE plain SET ACCESS METHOD heap_too;
INSERT INTO plain VALUES (2);
VACUUM FULL t;
DELETE FROM t;
TRUNCATE t, plain;
DROP TABLE t, plain;
DROP ACCESS METHOD heap_too;
