"""Documents and paths over them, a line each: what jsonpath is tried with."""

from __future__ import annotations

DOCUMENTS = r"""
{"a": 1, "b": [1, 2, {"c": "x"}], "d": null}
[1, 2, 3]
[[1, 2], [3, [4]]]
"abc"
12.5
true
null
{}
[]
{"a": {"a": {"a": 5}}, "b": "Abc"}
[{"a": 1}, {"a": "1"}, {"b": 2}, 3]
{"a": [], "b": false, "c": -7.55}
["a", "ab", "B", "1e5", "x\ny"]
"1.5e3"
""".strip().splitlines()
PATHS = r"""
$
$.a
strict $.a
$.b[*]
$.b[*].c
strict $.b[*].c
$[*]
strict $[*]
$[0]
$[last]
$[1 to last]
$[last - 1]
$[5]
strict $[5]
$[0, 1]
strict $[1 to 0]
$.*
strict $.*
$.**
$.**{1}
$.**{2 to last}
$.**{last}
$.**{0}
strict $.**.a
$.**.a
strict $.** ? (@ > 2)
strict $.**{1 to 2} ? (@ == 1)
$.** ? (@ == 5)
$.**.abs()
strict $.**{0 to 2}.abs()
$.a + 1
$.a - $.c
$[*] * 2
$.c / 0
$.a % 0
-$.a
+$[*]
-$.b
(-$.a).abs()
$.c.abs()
$.c.floor()
$.c.ceiling()
$[*].abs()
$.type()
$[*].type()
$.size()
strict $.size()
$.b.size()
$.double()
strict $.double()
$[*].double()
$.a.double()
(1e400).double()
$ ? (@ > 1)
$[*] ? (@ > 1)
strict $[*] ? (@ > 1)
$[*] ? (@.a == 1)
$[*] ? (@.a == "1")
$[*] ? (@ > 1 || @.a > 0)
$[*] ? (!(@ > 1))
$ ? (exists(@.a))
strict $ ? (exists(@.a))
$.a ? (@ > 0) ? (@ < 2)
$ ? ($.a == 1)
$.b[*] ? (@.type() == "number")
$.a > 0
$.a == 1
$.a != null
$.d == null
$.b[*] > 1
strict $.b[*] > 1
($.a > 0) is unknown
($.b > 0) is unknown
!($.a == 1)
$.a == 1 && $.b == 2
$.a == 1 || $.x == 2
$[*] == 2 && $.x > 1
$.b starts with "A"
$[*] starts with "a"
strict $[*] starts with "a"
$[*] like_regex "^a"
$[*] like_regex "^A" flag "i"
$[*] like_regex "a.b" flag "q"
$.b like_regex "[b-c]+"
$v
$.a + $v
$.a == $v
$[$v]
$.missing
strict $.missing
$.a[*]
strict $.a[*]
$.a[0]
strict $.a[0]
$[1.9]
$[-1]
$["a"]
$[1e10]
1
"s"
null
true
1 + 2 * 3
exists($.a)
exists($.a ? (@ > 10))
strict exists($.a[5])
$.b[last].c
$[last ? (@ > 1)]
$.keyvalue()
$.datetime()
$[*] < "b"
$[*] >= "ab"
$[*] <= true
$ == $
$.a == $.a.a
strict $.a.a
$.b[2].c
$.a.b.c
(1).type()
$.a.type() == "number"
""".strip().splitlines()
