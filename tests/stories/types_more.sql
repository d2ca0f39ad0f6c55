-- The types that are met more seldom: intervals, ranges, composites, networks, bits, shapes, search, money, identifiers.

CREATE TABLE intervals (id int PRIMARY KEY, i interval, t timetz);
INSERT INTO intervals VALUES (1, '0', '00:00+00'), (2, '1 year 2 months 3 days 04:05:06.789', '13:14:15.5+05:30'),
    (3, '-1 year -2 months +3 days -04:05:06', '24:00-12'), (4, '-0.000001 seconds', NULL), (5, '100 hours', NULL), (6, '1 mon -1 day', NULL);
-- since 17
INSERT INTO intervals VALUES (7, 'infinity', NULL), (8, '-infinity', NULL);

CREATE TABLE ranges (id int PRIMARY KEY, i int4range, n numrange, t tsrange, z tstzrange, d daterange, l int8range, m int4multirange);
INSERT INTO ranges VALUES (1, '[1,5)', '(1.5,2.5]', '[2024-01-01,2024-02-01)', '[2024-01-01 00:00+00,)', '[2024-01-01,2024-01-31]', '(,)', '{}'),
    (2, 'empty', 'empty', '(,2024-01-01 12:00]', NULL, '(,infinity)', '[0,0]', '{[1,3),[5,7)}'), (3, '[,5]', '(,)', NULL, NULL, NULL, NULL, '{(,)}');
CREATE TYPE textrange AS RANGE (subtype = text);
CREATE TABLE text_ranges (r textrange);
INSERT INTO text_ranges VALUES ('[a,"b c")'), ('["",z]'), (textrange('it''s', NULL)), (textrange('(', ']'));

CREATE TYPE pair AS (a int, b text);
CREATE TYPE nested AS (p pair, l pair[], n numeric);
CREATE TABLE composites (id int PRIMARY KEY, p pair, n nested, ps pair[]);
INSERT INTO composites VALUES (1, (1, 'x'), ((2, 'it''s'), ARRAY[(3, 'a,b')::pair, NULL], 1.5), ARRAY[(4, '"q"')::pair, (NULL, NULL)::pair]),
    (2, (NULL, NULL), NULL, '{}'), (3, (0, ''), (NULL, '{}', NULL), NULL), (4, (1, E'(par) \\ "q" \n'), NULL, NULL);
ALTER TYPE pair ADD ATTRIBUTE c date;
INSERT INTO composites (id, p) VALUES (5, (5, 'five', '2024-05-05'));
UPDATE composites SET id = 10 WHERE id = 1;

CREATE TABLE networks (id int PRIMARY KEY, i inet, c cidr, m macaddr, m8 macaddr8);
INSERT INTO networks VALUES (1, '192.168.0.1', '192.168.0.0/16', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05'),
    (2, '10.0.0.1/8', '10.0.0.0/32', 'ff-ff-ff-ff-ff-ff', '08:00:2b:01:02:03'), (3, '::1', '2001:db8::/32', NULL, NULL),
    (4, '2001:db8::ff00:42:8329/64', '::/0', NULL, NULL), (5, '::ffff:1.2.3.4', '0.0.0.0/0', NULL, NULL);

CREATE TABLE bits (id int PRIMARY KEY, b bit(5), v bit varying, o bit);
INSERT INTO bits VALUES (1, B'10101', B'', B'1'), (2, B'00000', B'1', B'0'), (3, NULL, repeat('10', 40)::varbit, NULL);

CREATE TABLE shapes (id int PRIMARY KEY, p point, l line, s lseg, b box, o path, c path, g polygon, r circle, bs box[]);
INSERT INTO shapes VALUES (1, '(1,2)', '{1,-1,0}', '[(0,0),(1,1)]', '(2,2),(0,0)', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1))', '((0,0),(1,0),(1,1))',
    '<(1,2),3>', '{(1,1),(0,0);(3,3),(2,2)}'), (2, '(-0.5,1e300)', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE seldom (id int PRIMARY KEY, m money, l pg_lsn, x xid, x8 xid8, t tid, v tsvector, q tsquery, r regclass, rt regtype, i2 int2vector);
INSERT INTO seldom VALUES (1, 1234.56, '16/B374D848', '42', '4294967296', '(3,4)', 'a:1A fat:2B,4C it''s', 'fat & (rat | !cat:A) <-> dog', 'pg_class', 'int4', '1 2 3'),
    (2, -0.05, '0/0', '4294967295', '0', '(0,0)', '', '''it''''s''', 'old.items', 'old.mood', '');
CREATE TABLE string_arrays (id int PRIMARY KEY, b1 "char"[], bp char(3)[], vc varchar(3)[], n name[], d date[]);
INSERT INTO string_arrays VALUES (1, '{a,b}', '{a,bc}', '{"x y"}', '{Name}', '{2024-01-01,infinity,"0044-03-15 BC"}');
DELETE FROM shapes WHERE id = 1;
