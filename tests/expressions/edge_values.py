"""Values to try, by type: the text of literals, edges first. Types are named as format_type() does."""

from __future__ import annotations

from jsonpath_values import DOCUMENTS, PATHS
from text_search_values import QUERIES, TEXTS

VALUES: dict[str, list[str]] = {
    "boolean": ["t", "f"],
    "smallint": ["0", "1", "-1", "2", "7", "-7", "32767", "-32768", "100", "15", "16"],
    "integer": ["0", "1", "-1", "2", "3", "7", "-7", "2147483647", "-2147483648", "100", "5", "31", "32", "65", "-2", "1000000"],
    "bigint": ["0", "1", "-1", "2", "7", "-7", "9223372036854775807", "-9223372036854775808", "4294967296", "2147483648", "-2147483649", "1048576",
               "10240", "32767", "9999999999"],
    "real": ["0", "-0", "1", "-1", "1.5", "2.5", "-2.5", "0.1", "3.4e38", "-3.4e38", "1e-45", "NaN", "Infinity", "-Infinity", "16777217", "100.25"],
    "double precision": ["0", "-0", "1", "-1", "0.5", "1.5", "2.5", "-2.5", "-0.5", "0.1", "1e308", "-1e308", "5e-324", "1e-300", "NaN",
    "Infinity", "-Infinity",
                         "9007199254740993", "32767.5", "2147483647.5", "9223372036854775807", "4", "2", "3", "1e15", "123456789012345678"],
    "numeric": ["0", "0.00", "1", "-1", "1.0", "1.5", "2.5", "-2.5", "0.5", "-0.5", "NaN", "Infinity", "-Infinity", "123456789.987654321", "1e20",
    "1e-20",
                "-99999999999999999999.99", "0.1", "3", "7", "10000", "9999.9999", "32767.5", "2147483647", "9223372036854775807.4", "4", "100",
                "12345678901234567890"],
    "money": ["0", "1", "-1", "12.34", "-0.05", "92233720368547758.07", "-92233720368547758.08", "1000000"],
    "oid": ["0", "1", "25", "4294967295", "16384", "2147483648"],
    "xid": ["0", "3", "4294967295", "2147483648"],
    "cid": ["0", "3", "4294967295"],
    "xid8": ["0", "3", "18446744073709551615", "4294967296"],
    "pg_lsn": ["0/0", "0/1", "FFFFFFFF/FFFFFFFF", "16/B374D848", "1/0"],
    "tid": ["(0,1)", "(0,0)", "(4294967295,65535)", "(1,1)", "(65536,2)"],
    "\"char\"": ["a", "b", "", "Z", "\\377", " "],
    "text": ["", "a", "abc", "ABC", "aBc dEf", "  trim  ", "äöü", "日本語", "x%y_z", "a\\b", "it's", 'quo"te', "line\nbreak", "tab\there",
    "abcabcabc", "éa", "zz",
             "123", "-1.5", "true", "A", "b", "\U0001f600x", "a,b,,c", "foo.bar", "%", "_", "abc ", "select"],
    "character varying": ["", "a", "abc", "äöü", "abc   "],
    "character": ["", "a", "abc", "a ", "äö", "B"],
    "name": ["", "a", "abc", "ABC", "pg_class", "äöü", "a" * 63],
    "bytea": ["", "\\x00", "\\x00ff", "abc", "\\xdeadbeef", "\\x616263", "a\\\\b", "%", "\\x6125", "\\xe4", "abcabc"],
    "date": ["2000-01-01", "1999-12-31", "2024-02-29", "0001-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity", "2024-12-31",
    "2023-01-31", "1900-03-01"],
    "time without time zone": ["00:00", "23:59:59.999999", "24:00", "12:34:56.789", "06:00", "01:30"],
    "time with time zone": ["00:00+00", "23:59:59.999999-12", "24:00+14", "12:34:56+05:30", "12:00-00:30", "12:00+00"],
    "timestamp without time zone": ["2000-01-01", "1999-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "infinity", "-infinity", "0001-01-01",
    "4714-11-24 BC",
                                    "294276-12-31 23:59:59.999999", "2024-12-31", "2023-01-31 08:00", "1500-06-15 12:00", "2021-01-03"],
    "timestamp with time zone": ["2000-01-01 00:00+00", "1999-12-31 23:59:59.999999+00", "2024-02-29 12:34:56.789+02", "infinity", "-infinity",
    "0001-01-01 00:00+00",
                                 "4714-11-24 00:00+00 BC", "294276-12-31 23:59:59.999999+00", "2023-07-31 08:00+00"],
    "interval": ["0", "1 day", "-1 day", "1 month", "30 days", "24 hours", "1 year 2 mons 3 days 04:05:06.789", "-1 mon +1 day",
    "-00:00:00.000001", "1 day -24:00:00",
                 "178000000 years", "-178000000 years", "2147483647 days", "100:00:00", "45 days", "-37 days 25:00:00", "1.5 hours", "12 days"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
             "018f3c5e-7b1a-7cde-8f00-123456789abc"],
    "inet": ["0.0.0.0", "127.0.0.1", "10.1.2.3/8", "10.0.0.0/8", "255.255.255.255", "192.168.1.5/24", "::1", "::", "fe80::1/64",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
             "192.168.1.5", "10.1.2.3/0", "2001:db8::/32"],
    "cidr": ["0.0.0.0/0", "10.0.0.0/8", "192.168.1.0/24", "127.0.0.1/32", "10.128.0.0/9", "::/0", "2001:db8::/32", "::1/128", "10.64.0.0/10"],
    "macaddr": ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "08:00:2b:01:02:03", "08:00:2b:01:02:04"],
    "macaddr8": ["00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff", "08:00:2b:01:02:03:04:05", "08:00:2b:ff:fe:01:02:03"],
    "bit": ["", "0", "1", "101", "010", "11110000", "111100001", "0000000000000001", "10000000000000000000000000000000", "1" * 33, "1" * 64,
    "0" * 65],
    "bit varying": ["", "0", "1", "101", "010", "11110000", "111100001", "0000000000000001", "1010"],
    "point": ["(0,0)", "(1,2)", "(-1.5,2.5)", "(1e-7,0)", "(NaN,0)", "(Infinity,1)", "(3,4)", "(1,1)", "(0,1)", "(1e300,1e300)", "(5,5)"],
    "lseg": ["[(0,0),(1,1)]", "[(0,0),(0,2)]", "[(1,0),(3,0)]", "[(0,0),(0,0)]", "[(-1,5),(4,-2.5)]", "[(0,1),(1,0)]", "[(2,2),(5,5)]"],
    "box": ["(1,1),(0,0)", "(2,2),(1,1)", "(0,0),(0,0)", "(5,5),(-5,-5)", "(3,1),(2,0.5)", "(10,10),(9,9)", "(1,5),(0,4)"],
    "path": ["[(0,0),(1,1)]", "((0,0),(1,1),(1,0))", "[(0,0),(1,1),(2,0)]", "[(5,5)]", "((0,0),(0,4),(4,4),(4,0))", "[(-1,2),(3,2)]"],
    "polygon": ["((0,0),(1,1),(1,0))", "((0,0),(0,4),(4,4),(4,0))", "((1,1))", "((1,1),(1,2),(2,2),(2,1))", "((10,10),(12,10),(11,14))",
    "((-1,0),(0,1),(1,0),(0,-1))",
                "((0,0),(6,0),(6,6),(3,3),(0,6))"],
    "line": ["{1,-1,0}", "{0,1,0}", "{1,0,-1}", "{0,-1,5}", "{2,-2,3}", "{1,1,1}", "{-1,0,2}"],
    "circle": ["<(0,0),1>", "<(1,1),0>", "<(0,0),5>", "<(3,4),1.5>", "<(10,0),2>", "<(0,0),0.5>", "<(-3,0),2>"],
    "json": ["null", "1", '"a"', "true", "[]", "{}", "[1,2,3]", '{"a":1,"b":[1,{"c":null}]}', '{"a":"x","a":"y"}', ' { "a" : 1.50 } ', '"é\\n"',
    "[null, 1]",
             '{"a": null, "b": 1}', '[[1,2],{"x":"y"}]', '["a","b"]', '"tab\\t\\u0041"'],
    "jsonb": ["null", "1", '"a"', "true", "false", "[]", "{}", "[1,2,3]", '{"a":1,"b":[1,{"c":null}]}', '{"a":"x"}', '{"a":1.50}', "[null, 1]",
    "[1]", "1.0", "-5", '"b"',
              '{"a":{"b":{"c":"deep"}}}', '["a","b"]', '["a"]', "1e20", '{"b":1,"a":2,"aa":3}', "[[1,2],[3]]", "32768", "2147483648.5", '"äö"',
              '{"a":null}'],
    "jsonpath": ["$", "$.a", "$.b[*]", '$.a ? (@ == 1)', "$[*] > 1", "exists($.a)"],
    "tsvector": ["", "'a'", "'a':1 'b':2A", "'abc':1,5 'def':3B,4C 'x'", "'fat':2 'cat':3 'rat':4", "'a b' 'c''d'", "'cat':1A 'fat':5"],
    "tsquery": ["", "'a'", "'a' & 'b'", "'fat' & ( 'rat' | 'cat' )", "!'a'", "'fat' <-> 'cat'", "'a':*", "'b':A", "'fat' <2> 'rat' | 'x'",
    "!( 'a' | 'b' )"],
    "pg_snapshot": ["10:20:10,14,15", "10:10:", "1:100:50"],
    "txid_snapshot": ["10:20:10,14,15", "10:10:", "1:100:50"],
    "xml": ["<a/>", "text", "<a>b</a>"],
    "int2vector": ["1 2 3", ""],
    "oidvector": ["1 2 3", "", "1 2", "4 5 6", "1 2 4"],
    "integer[]": ["{}", "{1}", "{1,2,3}", "{3,2,1}", "{NULL}", "{1,NULL,2}", "{{1,2},{3,4}}", "[0:2]={1,2,3}", "{2,2}", "{1,2}", "[5:5]={1}"],
    "smallint[]": ["{}", "{1,2}", "{-1}"],
    "bigint[]": ["{}", "{1}", "{1,2,3}", "{9223372036854775807}"],
    "text[]": ["{}", "{a}", "{a,b,c}", "{NULL}", "{a,NULL}", '{"",x}', "{{a,1},{b,2}}", "{b,a}", "{a,b}", "{b,c,0}"],
    "numeric[]": ["{}", "{1.0}", "{1,2.50,NaN}", "{NULL,1}"],
    "double precision[]": ["{}", "{1,2,3}", "{NaN,0}", "{-0}"],
    "real[]": ["{0.1,0.2,0.4,1.0}", "{1,1,1,1}"],
    "\"char\"[]": ["{}", "{a}", "{A,B}", "{a,b,c,d}"],
    "int4range": ["empty", "[1,5)", "(1,5)", "[1,1]", "(,5)", "[5,)", "(,)", "[5,10)", "[3,7)", "[0,100)", "[2,3)"],
    "int8range": ["empty", "[1,5)", "(,5)", "[5,10)", "(,)"],
    "numrange": ["empty", "[1,5)", "(1,5]", "[1.5,1.5]", "(,5)", "[5,)", "(1.0,2.0)", "[2,4)", "(,)"],
    "daterange": ["empty", "[2000-01-01,2000-02-01)", "(,2000-01-01)", "[2000-01-01,2000-01-01]", "[2000-02-01,infinity)"],
    "tsrange": ["empty", "[2000-01-01,2000-02-01)", "(2000-01-01,2000-02-01]", "(,)", "[2000-01-15,)"],
    "tstzrange": ["empty", "[2000-01-01 00:00+00,2000-02-01 00:00+00)", "(,2000-01-15 00:00+00]", "[2000-01-15 00:00+00,)"],
    "int4multirange": ["{}", "{[1,5)}", "{[1,3),[5,8)}", "{(,)}", "{[5,)}", "{(,3),[10,)}", "{[2,4)}", "{[8,9)}", "{[0,100)}"],
    "int8multirange": ["{}", "{[1,5)}", "{[1,3),[5,8)}"],
    "nummultirange": ["{}", "{[1.5,5)}", "{(1,3],(5,8)}", "{(,)}"],
    "datemultirange": ["{}", "{[2000-01-01,2000-02-01)}"],
    "tsmultirange": ["{}", "{[2000-01-01,2000-02-01)}", "{[2000-01-01,2000-01-10],(2000-02-01,)}"],
    "tstzmultirange": ["{}", "{[2000-01-01 00:00+00,2000-02-01 00:00+00)}"],
    "regconfig": ["simple", "english"],
    "regdictionary": ["simple"],
    "aclitem": ["postgres=r/postgres"],
}  # fmt: skip

SPECIAL: dict[tuple[str, int], list[str]] = {}
"""Values for one argument of one function (its C symbol, the place), where those of its type would rarely mean anything."""

UNITS = ["year", "month", "day", "hour", "minute", "second", "microseconds", "milliseconds", "epoch", "dow", "doy", "isodow", "isoyear", "week",
"quarter", "decade",
         "century", "millennium", "julian", "timezone", "timezone_hour", "timezone_minute", "nonsense", "DAY", "mon", "ms"]  # fmt: skip
for _symbol in ("extract_date", "extract_time", "extract_timetz", "extract_timestamp", "extract_interval", "time_part", "timetz_part",
"timestamp_part",
                "interval_part", "date_part(text, date)", "timestamp_trunc", "interval_trunc"):  # fmt: skip
    SPECIAL[_symbol, 0] = UNITS
PATTERNS = [
    "a%",
    "%a",
    "%b%",
    "_",
    "__",
    "abc",
    "a\\%",
    "",
    "%",
    "%_%",
    "a_c%",
    "%c%a%",
    "A%",
    "\\",
    "äö_",
    "%\\_%",
    "_ö%",
    "a%c",
    "%%",
    "x\\%y%",
]
for _symbol in ("textlike", "textnlike", "texticlike", "texticnlike", "namelike", "namenlike", "nameiclike", "nameicnlike"):
    SPECIAL[_symbol, 1] = PATTERNS
REGEXES = [
    "a",
    "^a",
    "c$",
    "b|c",
    "[abc]+",
    "[^a]",
    "a.c",
    "(abc)+",
    "a*",
    "\\d",
    "^$",
    ".",
    "\\mabc\\M",
    "a{2}",
    "a{2,}",
    "(?i)ABC",
    "\\s",
    "\\w+",
    "x?",
    "[[:alpha:]]+",
    "(a)(b)",
    "a|",
    "^.{3}$",
    "\\.",
    "a+?",
    "(?:ab)c",
    "[",
    "(",
    "*",
    "ä",
    "[a-c]{2}",
    "\\",
    "a(?=b)",
    "(.)\\1",
    "\\yabc\\y",
    "b.*c",
    "[0-9]+",
    "^\\S+$",
    "a.*?c",
]
for _symbol in ("textregexeq", "textregexne", "texticregexeq", "texticregexne", "nameregexeq", "nameregexne", "nameicregexeq", "nameicregexne",
"regexp_like_no_flags",
                "regexp_like", "regexp_count_no_start", "regexp_count_no_flags", "regexp_count", "textregexsubstr", "regexp_substr_no_start",
                "regexp_instr_no_start",
                "textregexreplace_noopt", "textregexreplace", "regexp_match_no_flags", "regexp_match", "regexp_split_to_array_no_flags",
                "regexp_split_to_array"):  # fmt: skip
    SPECIAL[_symbol, 1] = REGEXES
OCCURRENCES = (
    "regexp_instr_no_n", "regexp_instr_no_endoption", "regexp_instr_no_flags", "regexp_instr_no_subexpr", "regexp_instr", "regexp_substr_no_n",
    "regexp_substr_no_flags", "regexp_substr_no_subexpr", "regexp_substr", "textregexreplace_extended_no_n", "textregexreplace_extended_no_flags",
    "textregexreplace_extended",
)  # fmt: skip
for _symbol in OCCURRENCES:
    SPECIAL[_symbol, 1] = ["a", "b", "[abc]", "(a)", "(b)(c)", ".", "", "(x)?", "c$", "\\s", "b|c", "[", "(?i)A", "a*"]
    for _place in (2, 3, 4, 6):
        SPECIAL[_symbol, _place] = ["1", "2", "3", "0", "-1", "1", "1", "20"]
    SPECIAL[_symbol, 5] = ["", "i", "g", "z", "c"]
SPECIAL["regexp_substr", 4] = SPECIAL["regexp_substr_no_subexpr", 4] = ["", "i", "g", "z"]
SPECIAL["regexp_substr", 5] = ["0", "1", "2", "-1"]
for _symbol in OCCURRENCES[9:]:
    SPECIAL[_symbol, 2] = ["", "X", "[\\&]", "\\1", "\\\\"]
SPECIAL["regexp_count", 2] = ["1", "2", "0", "20"]
SPECIAL["regexp_count", 3] = SPECIAL["regexp_split_to_array", 2] = ["", "i", "g", "z", "c"]
SPECIAL["similar_escape", 1] = SPECIAL["substring(text, text, text)", 2] = ["", "\\", "#", "xx"]
SPECIAL["similar_escape", 0] = SPECIAL["substring(text, text, text)", 1] = [
    "a%",
    "%b%",
    "_",
    "(a|b)%",
    "a\\%",
    "a#%",
    "",
    "abc",
    "a.c",
    "%",
]
SPECIAL["regexp_like", 2] = SPECIAL["regexp_match", 2] = ["", "i", "c", "n", "s", "x", "g", "z"]
SPECIAL["textregexreplace", 3] = ["", "g", "i", "gi", "z"]
SPECIAL["textregexreplace_noopt", 2] = SPECIAL["textregexreplace", 2] = ["", "X", "[\\&]", "\\1", "\\\\"]
SPECIAL["binary_encode", 1] = SPECIAL["binary_decode", 1] = ["hex", "base64", "escape", "HEX", "nonsense"]
SPECIAL["unistr", 0] = [
    "", "a", "\\0061\\u00e4", "\\+01F600", "\\U0001F600", "\\D83D\\DE00", "\\D83D", "\\D83Dx", "\\DE00", "\\\\", "\\", "\\zz", "\\0000",
    "\\U00110000", "\\D83D\\0061", "\\D83D\\\\", "x\\+110000",
]  # fmt: skip
for _symbol in ("poly_overlap", "poly_distance", "poly_contain", "poly_contained"):
    for _place in (0, 1):
        SPECIAL[_symbol, _place] = [
            *VALUES["polygon"], "((0,0),(6,0),(6,6),(0,6))", "((1,1),(5,1),(5,5),(1,5))", "((1,1),(7,1),(7,2),(1,2))", "((0,0),(6,0),(3,3))",
            "((2,0),(4,0),(3,1))", "((0,0),(6,6))", "((5,5),(5,1),(6,3))", "((-1,3),(7,3),(7,3.5))", "((0,0),(10,0),(10,10),(5,2),(0,10))",
            "((1,8),(9,8),(5,9))", "((0,0),(0.1,0.3),(0.7,0.2))", "((0.1,0.1),(0.2,0.2),(0.3,0.1))",
        ]  # fmt: skip
SPECIAL["circle_poly", 0] = ["2", "3", "12", "1", "0", "-1", "7", "100"]
SPECIAL["binary_decode", 0] = [
    "a=",
    "YQ==",
    "YQ=",
    "====",
    "YQ==YQ==",
    "6 1",
    "61 62",
    "6ä",
    "\\400",
    "\\\\",
    "Y*",
    "",
    "616263",
    "YWJj",
    "a\\\\b",
    "6",
    "zz",
    "YW Jj\n",
    "Y",
    "\\000a",
    "YWI=",
    "\\377",
]
SPECIAL["translate", 1] = ["", "abc", "a", "äb"]
SPECIAL["repeat", 1] = ["0", "1", "3", "-1"]
SPECIAL["lpad", 1] = SPECIAL["rpad", 1] = ["0", "1", "3", "10", "-1"]
SPECIAL["pg_size_bytes", 0] = [
    "1",
    "1 kB",
    "1.5MB",
    " 2 GB ",
    "-1TB",
    "x",
    "1 foo",
    "1e3 bytes",
    "9223372036854775807",
    "1 PB",
    ".5 kB",
    "1.",
    "",
    "- 1",
    "1.5",
    "2.5",
    "-2.5 bytes",
    "1e400 kB",
    "1e-400",
    "1 b",
    "+3 MB",
    "0.5 bytes",
    "1E1kB",
    "5 e 3",
]
SPECIAL["parse_ident", 0] = [
    '""',
    'a."""x"',
    '"a',
    "Ä.öB",
    "a.",
    ".a",
    "a.b.c ",
    "a b.c",
    "a . b",
    '"a"b',
    "a.1",
    "a",
    "A.b",
    '"A".b',
    "a..b",
    "",
    "1a",
    "a b",
    ' a . "b c" ',
    'a."b',
    "a+",
    "_x$1",
]
SPECIAL["timestamp_zone", 0] = SPECIAL["timestamptz_zone", 0] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "EST",
    "nonsense",
    "+02",
    "PST8PDT",
    "utc",
]
SPECIAL["make_date", 0] = ["2024", "0", "-1", "2023", "5874897", "5874898"]
SPECIAL["make_date", 1] = ["1", "2", "0", "13", "12"]
SPECIAL["make_date", 2] = ["1", "29", "30", "31", "0"]
for _place, _texts in enumerate(
    (
        ["2024", "0", "-5", "294276"],
        ["1", "2", "13"],
        ["1", "29", "31"],
        ["0", "23", "24", "25"],
        ["0", "59", "60"],
        ["0", "59.999999", "60", "61", "NaN"],
    )
):
    SPECIAL["make_timestamp", _place] = _texts
for _place, _texts in enumerate(
    (["0", "23", "24", "25", "-1"], ["0", "59", "60"], ["0", "1.5", "59.9999999", "60", "61", "-1", "NaN"])
):
    SPECIAL["make_time", _place] = _texts
for _symbol in (
    "jsonb_object_field",
    "jsonb_object_field_text",
    "jsonb_exists",
    "jsonb_delete",
    "json_object_field",
    "json_object_field_text",
):
    SPECIAL[_symbol, 1] = ["a", "b", "c", "", "äö"]
for _symbol in (
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "json_extract_path",
    "json_extract_path_text",
    "jsonb_delete_path",
    "jsonb_set",
    "jsonb_insert",
):
    SPECIAL[_symbol, 1] = ["{}", "{a}", "{b,1}", "{b,1,c}", "{0}", "{-1}", "{a,b,c}", "{NULL}", "{x}", "{5}"]
for _symbol in (
    "jsonb_array_element",
    "jsonb_array_element_text",
    "jsonb_delete_idx",
    "json_array_element",
    "json_array_element_text",
):
    SPECIAL[_symbol, 1] = ["0", "1", "-1", "5", "-2147483648"]
for _symbol in ("range_constructor3",):
    SPECIAL[_symbol, 2] = ["[]", "[)", "(]", "()", "x", ""]
SPECIAL["trim_array", 1] = ["0", "1", "-1", "5"]
for _symbol in (
    "bpchar",
    "varchar",
    "numeric",
    "bit",
    "varbit",
    "time_scale",
    "timestamp_scale",
    "timestamptz_scale",
    "timetz_scale",
    "interval_scale",
):
    SPECIAL[_symbol, 1] = {"bpchar": ["5", "6", "-1", "9"], "varchar": ["5", "6", "-1", "9"], "numeric": ["-1", "262148", "327686", "655366",
    "131075"],
                           "bit": ["0", "1", "3", "8", "-1"], "varbit": ["0", "1", "3", "8", "-1"],
                           "interval_scale": ["-1", "2147418112", "2147418115", "268435455", "67174399", "470286335"]}.get(_symbol, ["0", "1",
                           "3", "6", "-1"])  # fmt: skip
SPECIAL["numeric_round", 1] = SPECIAL["numeric_trunc", 1] = ["0", "1", "2", "-1", "-5", "20", "-25", "100"]
SPECIAL["numeric_fac", 0] = ["0", "1", "5", "30", "-1", "32178"]
SPECIAL["char_bpchar", 0] = ["a", "b", " "]
SPECIAL["timetz_izone", 0] = ["0", "1 hour", "-5:30", "1 day", "1 month", "00:00:01", "12 hours"]
for _range, _texts in {"int4range[]": ["{}", '{"[1,3)","[2,5)"}', '{"[5,8)",empty,"[1,3)"}', '{NULL}'], "numrange[]": ["{}", '{"[1,3)","(3,5)"}',
'{"[1,3)","[3,5)"}'],
                      "int8range[]": ["{}", '{"[1,3)"}'], "daterange[]": ["{}", '{"[2000-01-01,2000-01-03)","[2000-01-03,2000-01-05)"}'],
                      "tsrange[]": ["{}", '{"[2000-01-01,2000-01-03)"}'], "tstzrange[]": ["{}",
                      '{"[2000-01-01 00:00+00,2000-01-03 00:00+00)"}']}.items():  # fmt: skip
    VALUES[_range] = _texts
SPECIAL["array_fill", 1] = SPECIAL["array_fill_with_lower_bounds", 1] = ["{}", "{2}", "{2,2}", "{0}", "{NULL}", "{3}"]
SPECIAL["array_fill_with_lower_bounds", 2] = ["{}", "{1}", "{0}", "{1,1}", "{-5}", "{5}"]
# What our reader of boxes makes of corners that are no numbers is not what is tried here.
SPECIAL["points_box", 0] = SPECIAL["points_box", 1] = ["(0,0)", "(1,2)", "(-1.5,2.5)", "(1e-7,0)", "(3,4)"]
SPECIAL["box_mul", 1] = ["(1,2)", "(-1.5,2.5)", "(3,4)", "(1e300,1e300)"]
SPECIAL["tsvector_setweight", 1] = SPECIAL["tsvector_setweight_by_filter", 1] = ["a", "B", "Z", " "]
_DOCUMENTS = [
    "'a':1,4,9 'b':2A,5 'c':3B,6C", "'a' 'b':2 'c':3", "'fat':2,11 'cat':3,12A 'rat':4,20 'category':5B",
    "'a':16383 'b':16382,16383", "'x':1 'y':120 'z':240",
    "'a':1,2,3,4,5,6 'ab':7 'abc':8A,9B", "'cat':1A 'fat':5 'rat':6", "'a' 'b' 'c'", "", "'q':1 'r':1 's':2 't':2",
]  # fmt: skip
_QUERIES = [
    "'a' & 'b' & 'c'", "'a' <-> 'b'", "'a' <2> 'c'", "'a' <-> ( 'b' | 'c' )", "'fat' <-> 'cat':*", "!'a' <-> 'b'",
    "'a' <-> !'b'", "!( 'a' <-> 'b' ) & 'c'",
    "( 'a' | !'b' ) <-> 'c'", "( 'a' & 'b' ) <-> 'c'", "'a' <0> 'a'", "'a':*A & 'b':B", "'a':* | 'a'", "'a' <16384> 'b'",
    "( 'x' <119> 'y' ) <120> 'z'",
    "!'a' | !'b'", "( !'a' & !'b' ) <-> 'c'", "( !'a' | 'q' ) <-> !'s'", "'b' | 'a' | 'c' | 'a':*",
    "'a' & 'b' | !( 'c' & 'fat' )", "", "'fat' & 'rat' & !'z'",
    "'cat' <-> 'fat' <-> 'rat'", "'a' <-> ( 'b' <-> 'c' )", "'c' & ( 'a' | 'b' ) & 'a'", "( 'a' | 'b' ) & 'c'", "!( 'a' | !'b' )",
]  # fmt: skip
for _symbol in ("ts_rank_tt", "ts_rank_ttf", "ts_rankcd_tt", "ts_rankcd_ttf", "ts_match_vq"):
    SPECIAL[_symbol, 0], SPECIAL[_symbol, 1], SPECIAL[_symbol, 2] = _DOCUMENTS, _QUERIES, [str(1 << bit) for bit in range(6)]
for _symbol in ("ts_rank_wtt", "ts_rank_wttf", "ts_rankcd_wtt", "ts_rankcd_wttf"):
    SPECIAL[_symbol, 0] = [
        "{0.1,0.2,0.4,1.0}",
        "{0,0,0,0}",
        "{-1,0.5,0.25,1}",
        "{1,1,1}",
        "{1,1,1,1.5}",
        "{1,NULL,1,1}",
        "{}",
        "{0.3,0.7,0.11,0.9,5}",
    ]
    SPECIAL[_symbol, 1], SPECIAL[_symbol, 2], SPECIAL[_symbol, 3] = (
        _DOCUMENTS,
        _QUERIES,
        ["0", "1", "2", "4", "8", "16", "32", "63"],
    )
SPECIAL["tsquery_rewrite", 0] = SPECIAL["tsquerytree", 0] = _QUERIES
SPECIAL["tsquery_rewrite", 1] = [
    "'a'",
    "'a' & 'b'",
    "'b' | 'a'",
    "'a' <-> 'b'",
    "!'b'",
    "'c' & 'a'",
    "",
    "'fat' & 'rat'",
    "'a':*",
    "'c' & 'b' & 'a' & 'd'",
]
SPECIAL["tsquery_rewrite", 2] = ["'new'", "", "'n' | 'm'", "'a' & 'b'", "!'n'", "'n' <-> 'm'"]
SPECIAL["to_ascii_enc", 1] = ["0", "6", "8", "9", "16", "29", "35", "41", "42", "-1"]
SPECIAL["to_ascii_encname", 1] = [
    "latin1",
    "ISO-8859-2",
    "LATIN9",
    "windows-1250",
    "Win_1250",
    "utf8",
    "gb18030",
    "nothing",
    "",
    "koi8",
    "iso88599",
]
SPECIAL["quote_ident", 0] = [
    "",
    "a",
    "A",
    "a b",
    'quo"te',
    "select",
    "name",
    "json_table",
    "json",
    "_x1",
    "1x",
    "ä",
    "system_user",
    "between",
]
SPECIAL["cash_words", 0] = [
    "0", "0.01", "1", "1.01", "-1.20", "20", "21", "30.99", "100", "101", "110", "119", "120", "999.13", "1000", "1001000", "92233720368547758.07",
    "-92233720368547758.08", "10010010010010010.15", "115.15", "0.30",
]  # fmt: skip
SPECIAL["xmlcomment", 0] = ["", "a", "a-b", "a--b", "-", "--", "a-", "é<b>"]
SPECIAL["xmlconcat2", 0] = SPECIAL["xmlconcat2", 1] = [
    "<a/>", '<?xml version="1.0"?><a/>', '<?xml version="1.1" standalone="yes"?><b/>', '<?xml version="1.1" standalone="no"?>x<b/>',
    "<?xml version='1.0' encoding='UTF-8' standalone='yes'?> <c/>", "text", "<?xml-stylesheet a='b'?><a/>", '<?xml version = "1.1" ?><d/>',
]  # fmt: skip
SPECIAL["xmltext", 0] = ["", "a<b>&\"'", "line\rend\n", "äöü"]
for _symbol in ("jsonb_path_exists", "jsonb_path_exists_opr", "jsonb_path_match", "jsonb_path_match_opr", "jsonb_path_query_array",
                "jsonb_path_query_first"):  # fmt: skip
    SPECIAL[_symbol, 0], SPECIAL[_symbol, 1], SPECIAL[_symbol, 2] = (
        DOCUMENTS,
        PATHS,
        ["{}", '{"v": 1}', '{"v": "1", "w": [2]}', "[1]"],
    )
for _symbol in ("to_tsvector_byid", "plainto_tsquery_byid", "phraseto_tsquery_byid", "to_tsquery_byid", "websearch_to_tsquery_byid", "ts_lexize",
                "jsonb_to_tsvector_byid", "json_to_tsvector_byid", "jsonb_string_to_tsvector_byid", "json_string_to_tsvector_byid"):  # fmt: skip
    SPECIAL[_symbol, 0], SPECIAL[_symbol, 1] = ["simple"], [*TEXTS, *QUERIES, ""]
for _symbol in (
    "jsonb_to_tsvector_byid",
    "json_to_tsvector_byid",
    "jsonb_string_to_tsvector_byid",
    "json_string_to_tsvector_byid",
):
    SPECIAL[_symbol, 1] = [
        *DOCUMENTS,
        '{"k one": "Some words here", "n": -1.50, "t": true, "in": ["a b", {"c": "the end"}, null, "<b>", "x"]}',
    ]
    SPECIAL[_symbol, 2] = [
        '"all"',
        '["string", "numeric"]',
        '"KEY"',
        '["boolean", "key"]',
        "[]",
        "{}",
        "1",
        '["no"]',
        "null",
        "[null]",
    ]
SPECIAL["pg_walfile_name", 0] = SPECIAL["pg_walfile_name_offset", 0] = [
    "0/0",
    "0/1",
    "1/0",
    "FFFFFFFF/FFFFFFFF",
    "16/B374D848",
    "16/B3000000",
    "0/100000",
]
