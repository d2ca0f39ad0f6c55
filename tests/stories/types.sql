-- One table for each family of types; old rows are shown whole.

CREATE TABLE ints (id int PRIMARY KEY, b bool, s smallint, i int, l bigint, o oid);
ALTER TABLE ints REPLICA IDENTITY FULL;
INSERT INTO ints VALUES (1, true, 0, 0, 0, 0), (2, false, -32768, -2147483648, -9223372036854775808, 1),
    (3, NULL, 32767, 2147483647, 9223372036854775807, 4294967295), (4, true, -1, NULL, -1, 2147483648);
UPDATE ints SET b = NOT b;
DELETE FROM ints;

CREATE TABLE floats (id int PRIMARY KEY, r real, d float8);
INSERT INTO floats VALUES (1, 0, 0), (2, '-0', '-0'), (3, 'NaN', 'NaN'), (4, 'Infinity', 'Infinity'), (5, '-Infinity', '-Infinity'),
    (6, 1e-45, 5e-324), (7, 3.4028235e38, 1.7976931348623157e308), (8, 1.1754944e-38, 2.2250738585072014e-308), (9, 0.1, 0.1),
    (10, 1e15, 1e15), (11, 123456.7, 123456789012345.6), (12, 1e6, 1e14), (13, 1234567, 999999999999999), (14, 1e-4, 1e-4),
    (15, 1e-5, 1e-5), (16, 0.3333333, 1 / 3::float8), (17, 16777216, 9007199254740993), (18, -2.5e-7, 1e16), (19, 1e5, 1e22), (20, 9.999999e5, 1e23),
    (21, NULL, -1.5), (22, 100000, 123456789), (23, 1e10, 100000000000000000000);
DELETE FROM floats;

-- since 15
CREATE TABLE numerics (id int PRIMARY KEY, n numeric, f numeric(12, 3), neg numeric(5, -2));
-- until 14
CREATE TABLE numerics (id int PRIMARY KEY, n numeric, f numeric(12, 3), neg numeric(5, 0));
ALTER TABLE numerics REPLICA IDENTITY FULL;
INSERT INTO numerics VALUES (1, 0, 0, 0), (2, 'NaN', 'NaN', NULL), (3, 'Infinity', NULL, NULL), (4, '-Infinity', NULL, NULL),
    (5, 0.00000000000000000001, 0.001, 12345), (6, -1, -1, -99), (7, 10000, 10000, 10000), (8, 1e50, 123456789.123, 50),
    (9, 1.10, 1.1, 100), (10, 99999999.99999999, 9999.9999, 49), (11, 0.0000, 0.0004, 0), (12, 1e-300, 0, 0), (13, 12345678901234567890.12345678901234567890, 1, 1),
    (14, 0.1, 0.1, 1), (15, 0.00010002, 1, 1), (16, -0.5, -0.5, -50), (17, 100000000, 1, 1), (18, 2::numeric ^ 2000, 1, 1), (19, repeat('9', 600)::numeric / 7, 1, 1);
UPDATE numerics SET n = n + 1, f = NULL WHERE id < 12;
DELETE FROM numerics;

CREATE TABLE texts (id int PRIMARY KEY, t text, v varchar(20), c char(5), q "char", n name, b bytea);
ALTER TABLE texts REPLICA IDENTITY FULL;
INSERT INTO texts VALUES (1, '', '', '', '', '', ''), (2, 'it''s "quoted" \ back', 'a''b', 'x', 'y', 'nam''e', '\x00ff27'),
    (3, E'tab\tnew\nline\rreturn', 'é', 'é', 'z', 'näme', '\xdeadbeef'), (4, '😀 𝄞 漢字', '漢字', 'abcde', '\', repeat('n', 63), decode(repeat('00', 40), 'hex')),
    (5, repeat('x', 126), NULL, NULL, NULL, NULL, NULL), (6, repeat('x', 127), 'x', ' x', NULL, 'x', NULL), (7, repeat('''', 300), NULL, NULL, NULL, NULL, NULL);
UPDATE texts SET t = t || '.';
DELETE FROM texts;

CREATE TABLE times (id int PRIMARY KEY, d date, t time, ts timestamp, tz timestamptz, i interval, tt timetz);
ALTER TABLE times REPLICA IDENTITY FULL;
INSERT INTO times VALUES (1, '2000-01-01', '00:00', '2000-01-01', '2000-01-01 00:00+00', '0', '00:00+00'),
    (2, '1999-12-31', '23:59:59.999999', '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.9+02', '1 year 2 mons 3 days 04:05:06.7', '12:00:00.5+05:30'),
    (3, 'infinity', '24:00', 'infinity', 'infinity', '-1 day', '24:00-12'), (4, '-infinity', '12:00:00.1', '-infinity', '-infinity', '-00:00:01', '01:02:03-03:30:15'),
    (5, '0044-03-15 BC', '01:02:03.000001', '0044-03-15 12:00 BC', '0044-03-15 12:00+00 BC', '1 day -1 sec', NULL),
    (6, '4713-01-01 BC', NULL, '4713-01-01 00:00 BC', '4713-01-01 00:00+00 BC', '178000000 years', NULL), (7, '5874897-12-31', NULL, '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59+00', '-1 mons', NULL),
    (8, '0001-01-01', NULL, '0001-01-01', '0001-01-01 00:00+00', '100:00:00', NULL), (9, '10000-01-01', NULL, '10000-01-01', '10000-01-01 00:00+00', '1 mon -1 days', NULL),
    (10, '2024-02-29', '10:20:30.12', '1969-12-31 23:59:59.5', '2024-02-29 12:34:56.123456+00', '0.000001', NULL);
UPDATE times SET id = id + 100;
DELETE FROM times;

CREATE TABLE documents (id int PRIMARY KEY, u uuid, j json, b jsonb);
ALTER TABLE documents REPLICA IDENTITY FULL;
INSERT INTO documents VALUES (1, '00000000-0000-0000-0000-000000000000', '{}', '{}'), (2, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '[]', '[]'),
    (3, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '  {"a" : 1, "a":2 }', '  {"bb" : 1, "a":2, "a":3 }'), (4, NULL, 'null', 'null'), (5, NULL, '"x"', '"x\u00e9\n\"\\ \u0001''"'),
    (6, NULL, '1.0', '1.0'), (7, NULL, 'true', '[true, false, null, 1e5, -0.50, "s", {"k": [1, [2, {"z": {}}]]}]'), (8, NULL, NULL, '{"": "", "long key": [], "k": {"deep": {"er": [[[]]]}}}'),
    (9, NULL, '0', (SELECT jsonb_object_agg('key ' || i, jsonb_build_array(i, i::text, NULL)) FROM generate_series(1, 80) i));
UPDATE documents SET id = id + 100;
DELETE FROM documents;

CREATE TYPE mood AS ENUM ('sad', 'it''s', 'Very Happy', 'é');
CREATE DOMAIN short AS varchar(10);
CREATE DOMAIN shorter AS short CHECK (length(VALUE) < 5);
CREATE DOMAIN moody AS mood;
CREATE TABLE named (id int PRIMARY KEY, m mood, s short, ss shorter, mm moody);
ALTER TABLE named REPLICA IDENTITY FULL;
INSERT INTO named VALUES (1, 'sad', 's', 'ss', 'sad'), (2, 'it''s', '', '', 'é'), (3, NULL, NULL, NULL, NULL), (4, 'Very Happy', 'a''b', 'é', 'it''s');
UPDATE named SET id = id + 10;
DELETE FROM named;

CREATE TABLE arrays (id int PRIMARY KEY, i int[], t text[], n numeric[], b bool[], d date[], m mood[], v varchar(9)[], f float8[], l bigint[]);
ALTER TABLE arrays REPLICA IDENTITY FULL;
INSERT INTO arrays VALUES (1, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
    (2, '{1,-2,NULL,2147483647}', ARRAY['a', NULL, '', 'NULL', 'null', 'it''s', 'q"q', 'b\b', 'c,d', 'e f', '{x}', ' lead', 'é', E'\n'], '{1.50,NaN,NULL}', '{t,f,NULL}', '{2020-01-01,infinity}', '{sad,"Very Happy",NULL}', '{"a b",c}', '{1e15,0.1,NaN}', '{9223372036854775807}'),
    (3, '{{1,2},{3,4}}', '{{a,"b c"},{NULL,d}}', NULL, NULL, NULL, '{{it''s},{é}}', NULL, NULL, NULL),
    (4, '[2:4]={1,2,3}', '[0:0][-1:0]={{x,y}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL), (5, '{{{1},{2}},{{3},{4}}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (6, (SELECT array_agg(i) FROM generate_series(1, 200) i), (SELECT array_agg('element ' || i) FROM generate_series(1, 100) i), NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE arrays SET id = id + 10;
DELETE FROM arrays;

CREATE TABLE bits (id int PRIMARY KEY, b bit(9), v varbit);
INSERT INTO bits VALUES (1, B'101010101', B''), (2, B'000000000', B'1'), (3, NULL, B'1111111111111');
CREATE TABLE nets (id int PRIMARY KEY, i inet, c cidr, m macaddr);
INSERT INTO nets VALUES (1, '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03'), (2, '10.0.0.1/24', '::/0', NULL), (3, '2001:db8::1', '2001:db8::/32', NULL), (4, '::ffff:1.2.3.4/100', NULL, NULL);
