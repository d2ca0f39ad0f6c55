-- Texts of XML with a declaration of every kind, and without one.

CREATE TABLE x (id int PRIMARY KEY, x xml);
ALTER TABLE x REPLICA IDENTITY FULL;
INSERT INTO x VALUES (1, '<a/>'), (2, '<?xml version="1.0"?><a/>'), (3, E'<?xml version="1.0" encoding="UTF-8"?>\n<a>é</a>'),
    (4, E'<?xml version=''1.0'' encoding=''utf8'' ?>\n\n<a/>'), (5, E'<?xml version="1.0" standalone="yes"?>\n<a/>'),
    (6, '<?xml  version = "1.0" encoding="UTF-8" standalone=''no'' ?><a/>'), (7, E'\n<a/>'), (8, E'\n\n<a/>'), (9, 'only text'), (10, ''),
    (11, E'\n'), (12, E' \n<a/>'), (13, '<?xml-stylesheet href="a"?><a/>'), (14, '<!-- it''s --><a b="c"/>'), (15, E'\r\n<a/>'), (16, NULL);
SET xmloption = document;
INSERT INTO x VALUES (20, E'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE a [<!ENTITY e "x">]>\n<a>&e;</a>'), (21, '<?xml version="1.1"?><a/>');
SET xmloption = content;
INSERT INTO x VALUES (30, xmlroot('<a/>', version '1.1', standalone yes)), (31, xmlroot('<a/>', version no value)),
    (32, xmlconcat('<?xml version="1.1"?><a/>', '<?xml version="1.1" standalone="no"?><b/>')), (33, xmlforest('é' AS "ü")),
    (34, xmlroot('<a/>', version '1.0', standalone no)), (35, ('<?xml version="1.0" encoding="UTF-8"?>' || repeat('<a>long</a>', 1000))::xml);
UPDATE x SET id = id + 100;
CREATE TYPE holder AS (a xml, b int);
CREATE TABLE held (xs xml[], h holder);
INSERT INTO held VALUES (ARRAY['<?xml version="1.0"?><a b="c"/>'::xml, NULL, E'\n'], ROW('<?xml version="1.0" encoding="UTF-8"?><a/>', 1)::holder);
DELETE FROM x;
