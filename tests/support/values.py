"""Values of every type a workload uses, as SQL, drawn from a seed.

In: a type's name and a `random.Random`. Out: an expression that any session of any server evaluates to the same value: no clock,
no settings. Large values are spelled as expressions, so that a schedule stays small.
"""

from __future__ import annotations

import random
from collections.abc import Callable

TYPES = (
    *("int", "bigint", "text", "numeric", "int[]", "text[]", "jsonb", "timestamptz", "bool", "bytea", "date", "float8", "uuid"),
    "varchar(200)",
)
RARE = {
    "smallint": ("-32768", "7", "0"),
    "float4": ("1.1", "-0", "NaN", "3.4e38"),
    "numeric(10,3)": ("0", "1234567.891", "-0.001", "NaN"),
    "char(8)": ("", "a b", "eight   "),
    '"char"': ("x", ""),
    "name": ("a name", "Ünïcode"),
    "time": ("24:00:00", "01:02:03.4"),
    "timetz": ("12:34:56.789+05:45", "00:00:00-12"),
    "timestamp": ("infinity", "2024-02-29 01:02:03.000004", "0099-01-01 BC"),
    "interval": ("1 year 2 mons -3 days 04:05:06.7", "-00:00:01", "0"),
    "inet": ("192.168.1.5/24", "::1", "10.0.0.1"),
    "cidr": ("192.168.0.0/16", "2001:db8::/32"),
    "macaddr": ("08:00:2b:01:02:03",),
    "macaddr8": ("08:00:2b:01:02:03:04:05",),
    "money": ("12.34", "-1234567.89"),
    "bit(5)": ("10101",),
    "bit varying": ("", "101010101"),
    "point": ("(1.5,-2)", "(NaN,Infinity)"),
    "polygon": ("((0,0),(1,0),(1,1))",),
    "circle": ("<(0,0),2.5>",),
    "int4range": ("[1,10)", "empty", "(,5]"),
    "tstzrange": ("[2024-01-01 00:00+00,2024-06-01 00:00+00)", "(,)"),
    "nummultirange": ("{[1,2),(3.5,4]}", "{}"),
    "tsvector": ("a:1A fat:2B,4C", ""),
    "tsquery": ("fat & (rat | !cat:AB)", "a <2> b:*"),
    "json": ('{"a" : [1, 2]}', "null"),
    "jsonpath": ("$.a[*] ? (@ > 3)", "strict $"),
    "pg_lsn": ("16/B374D848", "0/0"),
    "oid": ("0", "4294967295"),
    "xid8": ("18446744073709551615",),
    "tid": ("(0,1)", "(4294967295,65535)"),
    "text[][]": ('{{a,NULL},{"x,y",z}}', "[0:1]={p,q}"),
    "date[]": ("{2024-01-01,infinity,NULL}", "{}"),
    "pair": ('(1,"a b")', "(,)"),
    "pair[]": ('{"(1,x)",NULL}',),
    "positive": ("1", "2147483647"),
}
"""Types met less often, each with texts of it. `pair`, `positive` and `mood` are a workload's own (:data:`OWN_TYPES`)."""
OWN_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS int CHECK (value > 0)",
)
WORDS = ("", "x", "it''s", "two words", "žluťoučký", "NULL", "{a,b}", "back\\slash", '"quoted"', "tab\there", "line\nbreak")


def draw(kind: str, dice: random.Random) -> str:
    """An expression of type `kind`; now and then NULL."""
    return "NULL" if dice.random() < 0.08 else f"{_some(kind, dice)}::{kind}"


def default_of(kind: str, dice: random.Random) -> str:
    """A constant fit for DEFAULT, so that adding the column need not rewrite the table."""
    return f"{_SMALL[kind](dice) if kind in _SMALL else _some(kind, dice)}::{kind}"


def large(dice: random.Random) -> str:
    """Text too large for a page, hard or easy to compress, or easy but still too large."""
    blocks, salt = dice.randint(70, 260), dice.randint(0, 10**9)
    noise = f"(SELECT string_agg(md5('{salt}:' || g), '') FROM generate_series(1, {blocks}) g)"
    return dice.choice((noise, f"repeat('{salt} compressible ', {blocks})", f"repeat({noise}, 5)"))


def _some(kind: str, dice: random.Random) -> str:
    if kind in RARE:
        text = dice.choice(RARE[kind]).replace("'", "''")
        return f"'{text}'"
    return _DRAW[kind](dice)


def _text(dice: random.Random) -> str:
    if dice.random() < 0.12:
        return large(dice)
    return _short_text(dice)


def _short_text(dice: random.Random) -> str:
    return f"'{dice.choice(WORDS)}{dice.randint(0, 999)}'"


def _numeric(dice: random.Random) -> str:
    special = ("'NaN'", "'Infinity'", "'-Infinity'", "0", "1e30", "-0.00012300", "10000", "99999999.9999")
    return dice.choice(special) if dice.random() < 0.3 else f"{dice.randint(-(10**9), 10**9) / 10000:.4f}"


def _array(item: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    def draw_array(dice: random.Random) -> str:
        items = (item(dice) if dice.random() < 0.8 else "NULL" for _ in range(dice.randint(0, 4)))
        return f"ARRAY[{', '.join(items)}]"

    return draw_array


def _jsonb(dice: random.Random) -> str:
    return f"""'{{"k": {dice.randint(0, 99)}, "list": [1.50, null, "s", {{"deep": {dice.choice(("true", "{}", "[]"))}}}]}}'"""


def _int(dice: random.Random) -> str:
    return f"({dice.choice((0, 2**31 - 1, -(2**31), dice.randint(-1000, 1000)))})"


def _bigint(dice: random.Random) -> str:
    return f"'{dice.choice((0, 2**63 - 1, -(2**63), dice.randint(-(10**12), 10**12)))}'"


def _timestamptz(dice: random.Random) -> str:
    if dice.random() < 0.1:
        return dice.choice(("'infinity'", "'-infinity'", "'0044-03-15 12:00:00+00 BC'"))
    return (
        f"'20{dice.randint(0, 99):02}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02} 12:34:56.{dice.randint(0, 999999):06}+00'"
    )


_DRAW: dict[str, Callable[[random.Random], str]] = {
    "int": _int,
    "bigint": _bigint,
    "text": _text,
    "varchar(200)": _short_text,
    "numeric": _numeric,
    "int[]": _array(_int),
    "text[]": _array(_short_text),
    "jsonb": _jsonb,
    "timestamptz": _timestamptz,
    "bool": lambda dice: dice.choice(("true", "false")),
    "bytea": lambda dice: f"'\\x{dice.randbytes(dice.randint(0, 40)).hex()}'",
    "date": lambda dice: f"(date '2000-01-01' + {dice.randint(-400000, 400000)})",
    "float8": lambda dice: dice.choice(("'NaN'", "'-0'", "1e300", f"'{dice.uniform(-1000, 1000)!r}'")),
    "uuid": lambda dice: f"'{dice.randbytes(16).hex()}'",
}
_SMALL: dict[str, Callable[[random.Random], str]] = {"text": _short_text}
