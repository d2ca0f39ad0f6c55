"""The literals that `record_vectors.py` shows to PostgreSQL: every edge that we know of, and random ones."""

from __future__ import annotations

import json
import random
import struct

PREPARE = r"""
CREATE TYPE mood AS ENUM ('sad', 'ok', 'very "happy"', 'it''s');
CREATE DOMAIN positive AS int CHECK (value > 0);
CREATE DOMAIN tags AS text[];
CREATE DOMAIN short AS varchar(5);
CREATE TYPE pair AS (a int, b text);
CREATE TYPE deep AS (f float8, p pair, l int8[], s smallint, n numeric, t timestamptz, c "char", j jsonb);
CREATE TYPE floatrange AS RANGE (subtype = float8);
CREATE DOMAIN pairs AS pair[];
CREATE DOMAIN deeps AS deep[];
CREATE DOMAIN whole AS pair CHECK ((value).a > 0);
CREATE DOMAIN positives AS positive[];
CREATE TYPE nest AS (p pair, l pair[], w whole, ps positives, o positive, r int4range);
CREATE TABLE "Odd table" (a int);
DO $$ BEGIN CREATE ROLE "odd ""role"; CREATE ROLE "UPPER_1"; CREATE ROLE "é"; EXCEPTION WHEN duplicate_object THEN END $$;
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION cube;
"""

ZONES = ["America/New_York", "Asia/Kathmandu", "Europe/Berlin", "Australia/Lord_Howe", "Etc/GMT+5"]

_FLOATS = [
    "0",
    "-0",
    "1",
    "-1",
    "0.1",
    "1e-4",
    "9.9999e-5",
    "1e-5",
    "1.5e-5",
    "0.001",
    "123456",
    "999999",
    "1000000",
    "1234567",
    "9999999",
    "99999.95",
    "123456.7",
    "1e14",
    "999999999999999",
    "1e15",
    "1e16",
    "123456789012345",
    "1234567890123456",
    "9007199254740992",
    "3.141592653589793",
    "2.5e-7",
    "NaN",
    "Infinity",
    "-Infinity",
    "-0.00012345",
    "1e10",
    "-1e20",
    "1e6",
    "1e5",
]
_TIMES = [
    "00:00:00",
    "24:00:00",
    "23:59:59.999999",
    "12:34:56.5",
    "01:02:03.000001",
    "04:05:06.100000",
    "04:05:06.12345",
    "04:05",
]
_STAMPS = [
    "2000-01-01",
    "1999-12-31 23:59:59.999999",
    "2024-02-29 12:00:00.5",
    "1970-01-01 00:00:00",
    "infinity",
    "-infinity",
    "0001-01-01 00:00:00",
    "0001-12-31 23:59:59 BC",
    "4713-11-24 00:00:00 BC",
    "294276-12-31 23:59:59.999999",
    "10000-01-01",
    "12345-06-07 08:09:10.000001",
    "0044-03-15 12:00 BC",
    "1582-10-15",
    "1900-02-28 23:59:59.1",
    "0099-01-02 03:04:05.12",
    "2000-02-29",
    "1883-11-18 12:03:57",
    "1883-11-18 12:03:58",
    "1883-11-18 17:00",
    "2023-03-12 06:59:59.999999",
    "2023-03-12 07:00:00",
    "2023-11-05 05:59:59",
    "2023-11-05 06:00:00",
    "2023-03-26 00:59:59.9",
    "2023-03-26 01:00:00",
    "2037-07-01",
    "2038-01-19 03:14:08",
    "2100-07-04",
    "9999-12-31 23:59:59.999999",
    "1942-06-01",
    "1937-07-01 00:00",
    "1800-01-01",
    "1500-06-30",
    "294246-01-01",
    "11000-07-01",
    "11000-01-01",
    "1986-01-01",
    "1985-12-31 18:29:59",
    "1985-12-31 18:30:00",
    "1981-02-28 14:00",
    "2008-04-05 15:00",
    "2008-04-05 14:59:59",
]
_TEXTS = [
    "",
    "a",
    "hello world",
    "it's",
    '"quoted"',
    "back\\slash",
    "tab\tnew\nline\r",
    "NULL",
    "null",
    "{a,b}",
    " lead",
    "trail ",
    "ünïcödé",
    "日本語",
    "😀",
    "a,b",
    "x" * 126,
    "y" * 127,
    "z" * 3000,
    "\x01\x7f",
    "(a)",
    "[b]",
    "'",
    "''",
    "\x0b",
    "\x0c",
    "nul",
    "NULLS",
    "a;b",
]
_NUMERICS = [
    "0",
    "0.0",
    "0.00",
    "-0",
    "1",
    "-1",
    "0.1",
    "-0.1",
    "0.0001",
    "0.00001",
    "0.00000001",
    "1e-20",
    "1e-100",
    "12345",
    "10000",
    "9999",
    "99999999",
    "100000000",
    "1e4",
    "1e8",
    "1e20",
    "1e100",
    "1e400",
    "-1e131",
    "12345678901234567890.12345678901234567890",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.10",
    "1.1000",
    "1.10000",
    "123.4500",
    "0.5",
    "10000.0001",
    "100000000.00000001",
    "0.00010001",
    "999999999999999999.999999",
    "9999.9999",
    "-9999.99990",
    "1000",
    "1e3",
    "42.00",
    "0.0000000000000000000000000000000000000001",
    "3.14159265358979323846264338327950288419716939937510582097494459",
    "1e-16383",
    "1e131071",
]
_JSON = [
    "{}",
    "[]",
    "null",
    "true",
    "false",
    "0",
    "-0.00",
    "1e400",
    "1.50",
    "1e-10",
    '""',
    '"a"',
    '"it\'s \\"q\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u0001 \\u001f \\u007f \\u00e9 é 😀"',
    '{"a": 1}',
    '{"b": 2, "a": 1, "a": 3}',
    '[1, "two", null, true, false, {"x": []}, [[]]]',
    '{"a": {"b": {"c": [1, 2, {"d": "e"}]}}}',
    "[[[[[[[[1]]]]]]]]",
    '{"": ""}',
    '{"key with \\"quotes\\"": "v"}',
    "[1.0, 1.00, 100, 1e2, 12345678901234567890123]",
    '["a", 1, "bb", 2.5, "ccc", [3]]',
    json.dumps(list(range(100))),
    json.dumps({f"key{i}": i for i in range(100)}),
    json.dumps({f"k{i}": "v" * i for i in range(70)}),
    json.dumps([["x" * (i % 5), i, {"n": i / 8}] for i in range(90)]),
    json.dumps(["s" * 300] * 5),
    "[" * 100 + "]" * 100,
    '{"z": null, "yy": true, "xxx": false, "wwww": 1.5e-3}',
    "[-1, -12345.678, 0.000001]",
    '"NULL"',
    '{"a": [], "b": {}}',
    '"\\u2028"',
]

LITERALS: dict[str, list[str]] = {
    "bool": ["t", "f"],
    "int2": ["0", "1", "-1", "9", "10", "99", "100", "12345", "32767", "-32768"],
    "int4": [
        "0",
        "1",
        "-1",
        "9",
        "10",
        "99",
        "100",
        "999",
        "1000",
        "12345",
        "99999",
        "100000",
        "1234567",
        "2147483647",
        "-2147483648",
    ],
    "int8": [
        "0",
        "1",
        "-1",
        "9",
        "10",
        "99",
        "100",
        "1000000000",
        "9999999999",
        "123456789012",
        "9223372036854775807",
        "-9223372036854775808",
        "-9223372036854775807",
    ],
    "oid": ["0", "1", "16384", "2147483648", "4294967295"],
    "xid": ["0", "3", "4294967295"],
    "cid": ["0", "4294967295"],
    "xid8": ["0", "3", "4294967296", "18446744073709551615"],
    "pg_lsn": ["0/0", "0/16B3740", "16/B374D848", "FFFFFFFF/FFFFFFFF", "1/0"],
    "tid": ["(0,1)", "(4294967295,65535)", "(65536,7)"],
    "float4": [
        *_FLOATS,
        "1.17549435e-38",
        "3.4028235e38",
        "1e-45",
        "16777216",
        "8.5e10",
        "33554432",
        "1e23",
        "7.038531e-26",
        "5e10",
        "2e20",
        "9.5367e-7",
    ],
    "float8": [
        *_FLOATS,
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "4.4501477170144023e-308",
        "1e23",
        "8.41e21",
        "9.5e22",
        "2.2250738585072011e-308",
        "9007199254740993",
        "4503599627370497.5",
        "5e22",
        "2e23",
        "8e22",
        "9.2e18",
        "1e22",
        "1e21",
    ],
    "numeric": _NUMERICS,
    "numeric(10,2)": ["0", "1", "-1", "99999999.99", "-99999999.99", "0.01", "-0.01", "NaN", "12345.6"],
    "numeric(38,10)": [
        "0",
        "1",
        "-1",
        "9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
        "0.0000000001",
        "1234567890123456789.5",
    ],
    "numeric(20,0)": ["0", "1", "-1", "99999999999999999999", "10000", "100000000", "-12345678901234567890"],
    "numeric(5,5)": ["0", "0.00001", "-0.99999", "0.1"],
    "money": [
        "0",
        "1",
        "-1",
        "0.01",
        "-0.01",
        "1234.56",
        "-1234567.89",
        "92233720368547758.07",
        "-92233720368547758.08",
        "999.99",
        "1000",
    ],
    "text": _TEXTS,
    "varchar(3000)": _TEXTS,
    "bpchar(1)": ["", "a", "é", "'"],
    "bpchar(10)": ["", "a", "abcdefghij", "ünïcödé", " x ", "q\"q'"],
    "name": ["", "a", "x" * 63, "naïve", "it's"],
    '"char"': ["", "a", "'", " ", "\\", "\\351", "\\377"],
    "bytea": ["", "\\x00", "\\xdeadbeef", "abc", "\\x" + "ff" * 200, "\\x00010203"],
    "json": [*_JSON, '  { "a" :1 }  '],
    "jsonb": _JSON,
    "uuid": [
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ],
    "date": [
        "2000-01-01",
        "1970-01-01",
        "infinity",
        "-infinity",
        "5874897-12-31",
        "4713-11-24 BC",
        "0001-01-01",
        "0001-12-31 BC",
        "2024-02-29",
        "1900-03-01",
        "1600-02-29",
        "9999-12-31",
        "10000-01-01",
        "0044-03-15 BC",
        "0401-02-28 BC",
        "0099-09-09",
    ],
    "time": _TIMES,
    "timetz": [
        *(time + zone for time in _TIMES for zone in ("+00", "-05:30")),
        "12:00:00+15:59:59",
        "12:00:00.1-00:00:01",
        "01:02:03.4+05:45",
    ],
    "timestamp": _STAMPS,
    "timestamptz": _STAMPS,
    "interval": [
        "0",
        "1 day",
        "-1 day",
        "1 month",
        "1 year 2 months",
        "-1 year -2 months +3 days",
        "1 mon -1 day",
        "04:05:06.7",
        "-04:05:06.000001",
        "1 day -00:00:01",
        "-1 day 00:00:01",
        "100:00:00",
        "1 year 1 mon 1 day 01:01:01.000001",
        "infinity",
        "-infinity",
        "0.1 sec",
        "-0.1 sec",
        "178000000 years",
        "2562047788:00:54.775807",
        "13 months",
        "-13 months",
        "2 days 3 sec",
        "1 hour",
        "-1 hour -1 min -1 sec",
        "1 min",
        "-1 sec",
        "1 sec",
        "1.5 sec",
        "-0.5 sec",
        "-1.5 sec",
        "1 year -1 hour",
        "-1 day 0.5 sec",
        "-1 mon",
        "1 mon 1 day",
        "-1 year -1 mon -1 day -01:00:00.000001",
        "1 day 1 sec",
        "-1 day -1 sec",
    ],
    "bit(1)": ["0", "1"],
    "bit(8)": ["00000000", "10101010"],
    "varbit": ["", "1", "0", "1010101", "11111111", "111111110", "0" * 100 + "1"],
    "inet": [
        "0.0.0.0",
        "1.2.3.4",
        "1.2.3.4/24",
        "255.255.255.255/0",
        "10.0.0.1/32",
        "::1",
        "::1/128",
        "2001:db8::1/64",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "1:0:0:2:0:0:0:3",
        "fe80::/10",
        "::",
        "::ffff:0:0",
        "1:0:2:3:4:5:6:7",
        "::1:2",
    ],
    "cidr": ["10.0.0.0/8", "1.2.3.4", "0.0.0.0/0", "2001:db8::/32", "::1", "::/0", "192.168.1.0/24"],
    "macaddr": ["08:00:2b:01:02:03", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"],
    "macaddr8": ["08:00:2b:01:02:03:04:05", "ff:ff:ff:ff:ff:ff:ff:ff"],
    "point": ["(0,0)", "(1.5,-2.5)", "(1e20,1e-20)", "(NaN,Infinity)"],
    "line": ["{1,2,3}", "{-1,0,0.5}"],
    "lseg": ["[(0,0),(1,1)]", "[(1.5,2),(-3,1e-10)]"],
    "box": ["(1,1),(0,0)", "(0,0),(1,1)", "(-1.5,2),(3,-4)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1),(2,0))", "[(1,1)]"],
    "polygon": ["((0,0),(1,1),(2,0))", "((1,2))"],
    "circle": ["<(0,0),1>", "<(1.5,-2),0.25>"],
    "int2vector": ["", "1", "1 2 -3"],
    "oidvector": ["", "1", "1 4294967295"],
    "int4[]": [
        "{}",
        "{1}",
        "{1,NULL,3}",
        "{{1,2},{3,4}}",
        "[0:2]={1,2,3}",
        "[2:2][-1:0]={{1,2}}",
        "{NULL}",
        "{{{1},{2}},{{3},{NULL}}}",
        "[-5:-5]={7}",
        "{" + ",".join(map(str, range(300))) + "}",
        "{{NULL,NULL,NULL,1,2,3,4,5,NULL}}",
    ],
    "int2[]": ["{}", "{1,2,3}", "{1,NULL}"],
    "int8[]": ["{}", "{1,2,3}", "{1,NULL}", "{{1,NULL,2}}"],
    "bool[]": ["{t,f,NULL}"],
    "float8[]": ["{1.5,NaN,-Infinity,NULL,1e20}"],
    "text[]": [
        "{}",
        '{""}',
        '{NULL,"NULL","null",nulls}',
        r'{"a,b","{c}","d\"e","f\\g"," h","i ","j\tk"}',
        '{"it\'s"}',
        '{{a,b},{c,"d e"}}',
        "[0:1]={x,y}",
        '{"new\nline","\x0b","tab\t"}',
        "{é,日本語,😀}",
        '{"' + "x" * 130 + '",y,"' + "z" * 500 + '"}',
        "{a;b}",
        "{(a),[b]}",
        "{abc}",
    ],
    "varchar(5)[]": ['{abc,NULL,""}'],
    "bpchar(3)[]": ["{abc,a,NULL}"],
    "numeric(10,2)[]": ["{1.5,NULL,-3}", "{}"],
    "numeric[]": ["{1.5,NULL,-3,NaN,1e50}", "{}"],
    "timestamptz[]": ['{"2020-01-01 00:00:00",NULL,infinity}'],
    "uuid[]": ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"],
    "jsonb[]": [r'{"{\"a\": [1, \"x\"]}","[]",NULL,"null"}'],
    "bytea[]": [r'{"\\xdead","\\x",NULL}'],
    "date[]": ["{2020-01-01,infinity}"],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "name[]": ['{a,"b c",NULL}'],
    '"char"[]': ['{a,"",NULL}'],
    "inet[]": ["{1.2.3.4,::1/64}"],
    "mood": ["sad", "ok", 'very "happy"', "it's"],
    "mood[]": ['{sad,NULL,"very \\"happy\\"",it\'s}'],
    "positive": ["1", "2147483647"],
    "positive[]": ["{1,2,NULL}"],
    "short": ["abc", ""],
    "tags": ["{}", '{a,"b c",NULL}'],
    "tags[]": [r'{"{a,b}","{\"c d\"}"}'],
    "int4range": ["empty", "[1,5)", "(,5)", "[1,)", "(,)"],
    "int8range": ["empty", "[1,5)", "(,5)", "[1,)", "(,)"],
    "numrange": ["empty", "[1.5,2.5]", "(1.5,2.5)", "[,2.5]", "(1,)"],
    "tsrange": ['["2020-01-01 00:00:00","2021-01-01 00:00:00")', "(,infinity]"],
    "tstzrange": ['["2020-01-01 00:00:00+00","2021-01-01 00:00:00+00")', "[2020-01-01,)"],
    "daterange": ["[2020-01-01,2020-02-01)", "empty"],
    "floatrange": ["[1.5,2.5)", "(,1e20]"],
    "int4multirange": ["{}", "{[1,2)}", "{[1,2),[4,6),[9,)}", "{(,)}"],
    "nummultirange": ["{}", "{[1.5,2.5],(3,4),[100.25,)}"],
    "tstzmultirange": ['{["2020-01-01 00:00:00+00","2021-01-01 00:00:00+00")}'],
    "tsmultirange": ['{["2020-01-01 00:00:00","2021-01-01 00:00:00"),["2022-01-01 00:00:00",infinity]}', "{}"],
    "datemultirange": ["{[2020-01-01,2020-02-01),[2021-01-01,)}"],
    "int8multirange": ["{" + ",".join(f"[{10 * i},{10 * i + 5})" for i in range(20)) + "}"],
    "int4range[]": ['{"[1,5)",empty,NULL}'],
    "pair": ["(1,a)", "(,)", '(2,"")', '(3,"it\'s ""q"" \\\\ ,()")', "(4,é)", '(,"null")', '(5," x ")'],
    "pair[]": ['{"(1,a)",NULL,"(,\\"b c\\")"}'],
    "deep": [
        '(1.5,"(1,""a b"")","{1,2,NULL}",7,1.50,"2020-01-01 00:00:00+00",x,"{""a"": [1]}")',
        "(,,,,,,,)",
        '(,"(,)",,3,,,"",1)',
    ],
    "refcursor": ["", "c1", 'odd "name"'],
    "tsvector": [
        "",
        "a",
        "fat cat",
        "a:1A fat:2B,4C cat:5D",
        "'it''s':3 'back\\\\slash' ' ':7",
        "z:16383 y:99999A",
        "ünïcödé:1 日本語:2,3,4",
        "'" + "x" * 1000 + "':1 b:2A",
        " ".join(f"w{i}:{i + 1}" for i in range(200)),
        "abc:1 ab:2 abcd a:3",
    ],
    "tsquery": [
        "",
        "fat",
        "fat & (rat | !cat:A) <-> dog",
        "'it''s' | 'back\\\\slash'",
        "super:*",
        "super:*AB & x:D",
        "!!a",
        "!(a & b)",
        "a <-> (b <-> c)",
        "(a <-> b) <-> c",
        "a <2> b <0> c",
        "(a | b) & (c | d)",
        "a | b & c",
        "!(a <-> b) | c",
        "(a & b) <-> (c | d)",
        "a & b & c & d",
        "日本語 <16384> ünï:B*",
        "!a <-> !b",
    ],
    "jsonpath": [
        "$",
        "strict $.a",
        "$.a.b.*",
        '$."key with \\"quotes\\""[*]',
        "$[0]",
        "$[0 to 2, last, 5 to last]",
        "$[last - 1]",
        "$.** ? (@.a > 1)",
        "$.**{2}",
        "$.**{2 to 3}",
        "$.**{last}",
        "$.**{1 to last}",
        "$.**{0 to last}",
        "$ ? (@.a == 1 && @.b != 2 || !(@.c < 3))",
        '$.a ? (@ like_regex "^a.*\\n" flag "im")',
        '$.a ? (@ like_regex "a")',
        '$ ? (@ starts with "x")',
        '$ ? (@ starts with $"va r")',
        "$ ? ((@.a > 1) is unknown)",
        "$ ? (exists (@.b ? (@ >= 2.50)))",
        "$.a + $.b * 2 - 3",
        "($.a + 1) * (2 - $.b) / 4 % 5",
        "-$.a",
        "+(-$.a)",
        "-($.a + 1)",
        "$.a.type()",
        "$.size()",
        "$.a.abs().floor().ceiling().double()",
        "$.a.keyvalue().key",
        "$.a.datetime()",
        '$.a.datetime("HH24:MI")',
        "1.50",
        '"str\\u0001\\t"',
        "null",
        "true",
        "$x",
        '$"odd name".b',
        "$ ? (@.a <= null && @.b <> false)",
        "$.a[$.b, 1 to $.c]",
        "1e10",
        "$ ? (1 < @ && @ < 5)",
        "(($.a)).b",
        "(1.5).type()",
        "(-1).abs()",
    ],
    "aclitem": [
        "=r/postgres",
        "postgres=arwdDxt/postgres",
        "postgres=a*r*X/postgres",
        '"odd ""role"=U*C/postgres',
        'UPPER_1=r/"é"',
    ],
    "aclitem[]": ["{=r/postgres,postgres=arwdDxt/postgres}", "{}"],
    "pg_snapshot": ["10:20:10,14,15", "1:1:", "4294967299:4294967303:4294967300"],
    "txid_snapshot": ["10:20:10,14,15", "1:1:"],
    "regclass": ["pg_class", "pg_toast.pg_toast_1255", "0", "4000000000", '"Odd table"'],
    "regtype": ["int4", "text[]", "-", "4000000000", "mood", '"char"', "timestamptz"],
    "regproc": ["now", "-", "4000000000", "boolin"],
    "regprocedure": ["abs(int4)", "sum(int4)", "-", "4000000000"],
    "regoper": ["|/", "0", "4000000000"],
    "regoperator": ["+(int4,int4)", "!!(NONE,tsquery)", "0", "4000000000"],
    "regrole": ["postgres", "-", "4000000000", '"odd ""role"'],
    "regnamespace": ["pg_catalog", "-", "4000000000", "vectors"],
    "regconfig": ["english", "-", "4000000000"],
    "regdictionary": ["simple", "-", "4000000000"],
    "regcollation": ['"C"', "-", "4000000000"],
    "regtype[]": ['{int4,NULL,"character varying"}'],
    "floatrange[]": ['{"[1.5,2.5)",NULL}'],
    "pairs": [r'{"(1,a)","(,\"b c\")",NULL}', "{}"],
    "deeps": [r'{"(1.5,\"(1,\"\"a b\"\")\",\"{1,2,NULL}\",7,1.50,\"2020-01-01 00:00:00+00\",x,\"{\"\"a\"\": [1]}\")"}'],
    "whole": ["(1,a)", "(2,)"],
    "nest": ['("(1,x)","{""(2,y)"",NULL}","(3,z)","{1,2}",7,"[1,5)")', "(,,,,,)"],
    "nest[]": [r'{"(\"(1,x)\",\"{\"\"(2,y)\"\",NULL}\",\"(3,z)\",\"{1,2}\",7,\"[1,5)\")",NULL}'],
    "whole[]": ['{"(1,a)",NULL}'],
    "positives": ["{1,2,NULL}"],
    "hstore": ["", "a=>1", 'b=>2, a=>1, ccc=>NULL, ""=>"", "it\'s"=>"q\\"b\\\\s"', 'é=>日本語, "a b"=>"c, d"', 'NULL=>"NULL"'],
    "hstore[]": ['{"\\"a\\"=>\\"1\\", \\"b\\"=>NULL",NULL}'],
    "citext": ["", "Hello", "it's", "日本語"],
    "citext[]": ['{A,b,"c d",NULL}'],
    "ltree": ["", "Top", "Top.Science.Astronomy", "a.bb.ccc.dddd.eeeee.ffffff.ggggggg.hhhhhhhh.iiiiiiiii", "x" * 255],
    "lquery": [
        "Top.*",
        "*",
        "*.pizza",
        "Top.*{1,2}.!pizza|tomato@*.a%",
        "*{2}.a*{,3}.*{4,}",
        "a{1,}.b{2}.c{,}",
        "!foo|bar",
        "a*@%{1,5}",
        "*{0,0}",
    ],
    "ltxtquery": [
        "Europe",
        "Europe & Russia*@ & !Transportation",
        "(a | b) & c",
        "!(a & b) | c%",
        "a | b | c",
        "a & (b | c)",
        "!!a",
    ],
    "cube": ["(1)", "(1,2,3)", "(1,2),(3,4)", "(0.1,1e20),(-5,1e-10)", "(1,1),(1,1)", "()"],
}

VECTORS: dict[str, list[str]] = {
    "vector": ["[1,2,3]", "[0.1,-1e20,1e-10]", "[0]", "[" + ",".join(str(i / 7) for i in range(300)) + "]"],
    "vector(3)": ["[1,2,3]", "[1.5,-2,3e7]"],
    "halfvec": ["[1,2,3]", "[0.1,-65504,6e-8]", "[0]"],
    "sparsevec": ["{1:1.5,3:2}/5", "{}/3", "{2:-0.1,1000000:1e10}/1000000"],
    "vector[]": ['{"[1,2]",NULL}'],
}
"""pgvector's types, which another build of PostgreSQL has."""

STYLES: list[tuple[dict[str, str], tuple[str, ...]]] = [
    *(
        (
            {"DateStyle": f"{form}, {order}", "TimeZone": zone},
            ("date", "time", "timetz", "timestamp", "timestamptz", "tstzrange", "date[]", "deep"),
        )
        for form, order, zone in (
            ("ISO", "DMY", "America/New_York"),
            ("SQL", "MDY", "America/New_York"),
            ("SQL", "DMY", "UTC"),
            ("SQL", "YMD", "Asia/Kathmandu"),
            ("Postgres", "MDY", "UTC"),
            ("Postgres", "DMY", "Europe/Berlin"),
            ("Postgres", "YMD", "Etc/GMT+5"),
            ("German", "DMY", "<+03>-03"),
            ("German", "MDY", "5.5"),
        )
    ),
    *(({"IntervalStyle": name}, ("interval",)) for name in ("postgres", "postgres_verbose", "sql_standard", "iso_8601")),
    ({"bytea_output": "escape"}, ("bytea", "bytea[]")),
    *(
        ({"extra_float_digits": str(digits)}, ("float4", "float8", "float8[]", "point", "floatrange", "cube"))
        for digits in (3, 0, -3, -15)
    ),
]
"""Settings, and the types that they change."""


def random_literals(name: str, chance: random.Random, count: int = 200) -> list[str]:
    """More literals for the types where surprise is likely; the same ones at each call with the same seed."""
    if name in {"int4", "int8"}:
        bits = 31 if name == "int4" else 63
        return [str(chance.getrandbits(chance.randint(1, bits)) * chance.choice((1, -1))) for _ in range(count)]
    if name == "float8":
        return [repr(value) for value in (struct.unpack("<d", chance.randbytes(8))[0] for _ in range(count))] + [
            repr(chance.randint(1, 99999) * 10.0 ** chance.randint(-10, 40)) for _ in range(count)
        ]
    if name == "float4":
        return [repr(value) for value in (struct.unpack("<f", chance.randbytes(4))[0] for _ in range(count))] + [
            repr(chance.randint(1, 999) * 10.0 ** chance.randint(-10, 30)) for _ in range(count)
        ]
    if name == "numeric":
        return [_random_numeric(chance) for _ in range(count)]
    if name in {"timestamp", "timestamptz"}:
        return [_random_stamp(chance) for _ in range(count)]
    if name == "date":
        return [_random_stamp(chance).split()[0] for _ in range(count)]
    if name == "jsonb":
        return [json.dumps(_random_json(chance, 4)) for _ in range(count // 2)]
    if name == "interval":
        return [_random_interval(chance) for _ in range(count)]
    if name == "tsquery":
        return [_random_query(chance, 4) for _ in range(count // 2)]
    if name == "tsvector":
        return [" ".join(_random_lexeme(chance) for _ in range(chance.randint(1, 12))) for _ in range(count // 2)]
    if name == "text[]":
        return [_random_array(chance) for _ in range(count // 2)]
    return []


def _random_numeric(chance: random.Random) -> str:
    whole = str(chance.getrandbits(chance.choice((1, 10, 30, 60, 120, 300))))
    part = "".join(chance.choice("0001234567899") for _ in range(chance.choice((0, 0, 1, 2, 3, 4, 5, 8, 9, 20, 70))))
    return chance.choice(("", "-")) + whole + ("." + part if part else "")


def _random_stamp(chance: random.Random) -> str:
    year = chance.choice((chance.randint(1, 9999), chance.randint(1850, 2100), chance.randint(1850, 2100)))
    fraction = chance.choice(("", f".{chance.randint(0, 999999):06d}"))
    day, hour = f"{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}", chance.randint(0, 23)
    return f"{year:04d}-{day} {hour:02d}:{chance.randint(0, 59):02d}:{chance.randint(0, 59):02d}{fraction}"


def _random_json(chance: random.Random, depth: int) -> object:
    pick = chance.randint(0, 7 if depth else 4)
    if pick >= 6:
        return [_random_json(chance, depth - 1) for _ in range(chance.randint(0, 6))]
    if pick == 5:
        return {_random_word(chance): _random_json(chance, depth - 1) for _ in range(chance.randint(0, 6))}
    return (_random_word(chance), chance.randint(-(10**9), 10**9), chance.random() * 1e5, None, True)[pick]


def _random_word(chance: random.Random) -> str:
    return "".join(chance.choice('abcxyz"\\\n\té日😀,{} ') for _ in range(chance.randint(0, 9)))


def _random_array(chance: random.Random) -> str:
    words = [_random_word(chance).replace("\\", "\\\\").replace('"', '\\"') for _ in range(chance.randint(1, 8))]
    return "{" + ",".join("NULL" if chance.random() < 0.2 else f'"{word}"' for word in words) + "}"


def _random_interval(chance: random.Random) -> str:
    """Parts of either sign, many of them absent."""
    parts = [
        f"{chance.choice((1, -1)) * chance.choice((1, 2, chance.randint(1, 99999)))} {unit}"
        for unit in ("months", "days", "hours", "minutes")
    ]
    seconds = chance.choice((1, chance.randint(1, 59), chance.randint(1, 10**7) / 10**6)) * chance.choice((1, -1))
    chosen = [part for part in [*parts, f"{seconds:f} seconds"] if chance.random() < 0.5]
    return " ".join(chosen) or "0"


def _random_query(chance: random.Random, depth: int, around: str = "") -> str:
    """Operators of one kind are only nested to the left, where parentheses say nothing."""
    if depth == 0 or chance.random() < 0.3:
        word = "'" + chance.choice(("a", "cat", "it''s", "日本", "x y")) + "'"
        return chance.choice(("", "", "!")) + word + chance.choice(("", "", ":*", ":AC", ":*B"))
    sign = chance.choice([sign for sign in ("&", "|", "<->", "<3>") if sign[0] != around[:1]])
    return f"({_random_query(chance, depth - 1)} {sign} {_random_query(chance, depth - 1, sign)})"


def _random_lexeme(chance: random.Random) -> str:
    places = ",".join(f"{chance.randint(1, 16383)}{chance.choice('ABCD')}" for _ in range(chance.randint(0, 5)))
    word = chance.choice(("a", "ab", "cat", "it''s", "日本", "x y", "b")) + str(chance.randint(0, 10 ** chance.randint(1, 9)))
    return f"'{word}'" + (f":{places}" if places else "")
