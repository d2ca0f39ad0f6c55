"""Calls of built-in functions with values from `edge_values`: what a server says of each, and what tailrace does.

`try_function` makes seeded choices of values for the arguments. A result is ("value", working form), ("null",), or ("error", SQLSTATE, message).
"""

from __future__ import annotations

import itertools
import random
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
from edge_values import SPECIAL, VALUES

from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.evaluate.executor.exec_expr import Compiler
from tailrace.expressions.evaluate.fmgr.array_and_record import RecordValue
from tailrace.expressions.evaluate.fmgr.datum_forms import reader_of
from tailrace.expressions.evaluate.fmgr.pg_proc import BuiltIn, built_in_functions
from tailrace.expressions.evaluate.fmgr.refusals import Refused
from tailrace.expressions.evaluate.fmgr.vectors import Facts, Scope, Vector
from tailrace.expressions.node_tree import read_node_tree
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.built_in import built_in_type, built_in_types
from tailrace.types.registry import format_values, parse_texts
from tailrace.types.style import TextStyle
from tailrace.types.values import Texts, Values

TRY = """
CREATE OR REPLACE FUNCTION try(query text, OUT good bool, OUT said text, OUT state text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE query INTO said; good := true;
EXCEPTION WHEN OTHERS THEN good := false; said := SQLERRM; state := SQLSTATE;
END $$
"""
MOST = 160
POLYMORPHIC: dict[str, list[str]] = {
    "anyarray": ["integer[]", "text[]", "numeric[]", "double precision[]"], "anycompatiblearray": ["integer[]", "text[]"],
    "anyelement": ["integer", "text", "integer"], "anycompatible": ["integer", "text"], "anyrange": ["int4range", "numrange", "int4range"],
    "anymultirange": ["int4multirange", "nummultirange", "int4multirange"], '"any"': ["integer", "text"],
}  # fmt: skip
ELEMENT = {"integer[]": "integer", "text[]": "text", "numeric[]": "numeric", "double precision[]": "double precision", "int4range": "integer",
           "numrange": "numeric", "int4multirange": "integer", "nummultirange": "numeric"}  # fmt: skip
PRINTED = {"xml": "::text", "regconfig": "::oid", "regdictionary": "::oid"}
"""What is not printed as it is stored: xml_out drops a declaration that says nothing."""
LABELS = {pg_type.label: pg_type for pg_type in built_in_types().values()}


@dataclass
class Tried:
    """A function with concrete types: how many calls, and those that went wrong."""

    function: BuiltIn
    types: tuple[str, ...]
    calls: int = 0
    refused: str = ""
    refused_rows: int = 0
    wrong: list[str] = field(default_factory=list)


def concrete(function: BuiltIn) -> list[tuple[str, ...]]:
    """The types to call it with."""
    labels = [built_in_type(oid).label for oid in function.arguments]  # type: ignore[union-attr]
    if not any(label in POLYMORPHIC for label in labels):
        return [tuple(labels)]
    found = []
    for number in range(max(len(POLYMORPHIC[label]) for label in labels if label in POLYMORPHIC)):
        chosen = [
            POLYMORPHIC[label][min(number, len(POLYMORPHIC[label]) - 1)] if label in POLYMORPHIC else label for label in labels
        ]
        containers = [
            each
            for label, each in zip(labels, chosen, strict=True)
            if label not in ("anyelement", "anycompatible") and label in POLYMORPHIC
        ]
        if containers:
            element = ELEMENT.get(containers[0], "integer")
            chosen = [
                element if label in ("anyelement", "anycompatible") else each for label, each in zip(labels, chosen, strict=True)
            ]
            if {"anyrange", "anymultirange"} <= set(labels):
                family = ("int4range", "int4multirange") if element == "integer" else ("numrange", "nummultirange")
                chosen = [
                    family[label == "anymultirange"] if label in ("anyrange", "anymultirange") else each
                    for label, each in zip(labels, chosen, strict=True)
                ]
        if tuple(chosen) not in found:
            found.append(tuple(chosen))
    return found


def result_label(server: psycopg.Connection[Any], function: BuiltIn, types: tuple[str, ...]) -> str:
    """The planner drops the call, which may fail, and knows its type."""
    called = call_of(function, [cast(None, label) for label in types])
    return str(server.execute(f"SELECT pg_typeof(CASE WHEN false THEN {called} END)::text").fetchone()[0])  # type: ignore[index]


def call_of(function: BuiltIn, arguments: list[str]) -> str:
    if function.variadic and arguments and function.variadic != 2276:
        arguments = [*arguments[:-1], "VARIADIC " + arguments[-1]]
    return f"{name_of(function)}({', '.join(arguments)})"


def name_of(function: BuiltIn) -> str:
    return f'pg_catalog."{function.label.partition("(")[0]}"'


def combinations(function: BuiltIn, types: tuple[str, ...], seed: int) -> list[tuple[str | None, ...]]:
    choices = [SPECIAL.get((function.symbol, place), VALUES.get(label, [])) for place, label in enumerate(types)]
    if not all(choices):
        return []
    chooser = random.Random(f"{seed} {function.oid} {types}")
    total = int(np.prod([len(each) for each in choices])) if choices else 1
    if total <= MOST:
        found: list[tuple[str | None, ...]] = list(itertools.product(*choices))
    else:
        found = [tuple(chooser.choice(each) for each in choices) for _ in range(MOST)]
    for place in range(len(types)):
        found.append(tuple(None if other == place else chooser.choice(each) for other, each in enumerate(choices)))
    return found


class Oracle:
    """A server that says what calls give; keeps the stored form of the literals that it was asked about."""

    def __init__(self, server: psycopg.Connection[Any], major: int) -> None:
        self.server = server
        (size,) = server.execute("SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size'").fetchone()  # type: ignore[misc]
        self.facts = Facts(timeline=1, segment_size=size, style=TextStyle(major=major))
        self.known: dict[tuple[str, str], bytes] = {}
        server.execute(TRY)

    def stored(self, label: str, text: str) -> bytes | None:
        """A literal's stored form, through the server's own text of it."""
        if (label, text) not in self.known and label == "jsonpath":
            self.known[label, text] = self.stored_path(text)
        if (label, text) not in self.known:
            whole = f"({cast(text, label)}){PRINTED.get(label, '')}"
            printed = self.server.execute(f"SELECT format('%s', {whole})").fetchone()[0]  # type: ignore[index]
            values = parse_texts(Texts.of([printed]), np.ones(1, np.bool_), LABELS[label])
            self.known[label, text] = values.payload_list()[0]
        return self.known[label, text]

    def stored_path(self, text: str) -> bytes:
        """Of what a row filter has as a constant: nobody but a server makes a path of its text."""
        self.server.execute("CREATE TABLE IF NOT EXISTS paths (j jsonb)")
        self.server.execute(f"CREATE PUBLICATION paths FOR TABLE paths WHERE (j @? {literal(text)}::jsonpath)".encode())
        (stored,) = self.server.execute("SELECT prqual::text FROM pg_publication_rel").fetchone()  # type: ignore[misc]
        self.server.execute("DROP PUBLICATION paths")
        return next(each.value for each in tree.walk(read_node_tree(stored)) if isinstance(each, tree.Const) and each.value)

    def tried(self, function: BuiltIn, types: tuple[str, ...], seed: int = 1) -> Tried:
        done = Tried(function, types)
        rows = combinations(function, types, seed)
        result = LABELS[result_label(self.server, function, types)]
        part = compiled(function, [LABELS[label] for label in types], result, self.facts)
        if isinstance(part, str):
            done.refused = part
            return done
        queries = [
            f"SELECT ({call_of(function, [cast(text, label) for text, label in zip(row, types, strict=True)])})::text"
            for row in rows
        ]
        answers = self.server.execute(
            "SELECT good, said, state FROM unnest(%s::text[]) WITH ORDINALITY u(q, n), try(q) ORDER BY n", [queries]
        ).fetchall()
        together: list[tuple[tuple[str | None, ...], Any]] = []
        for row, (good, said, state) in zip(rows, answers, strict=True):
            if not good and state in ("22P02", "22007", "22008") and self.bad_literal(row, types):
                continue
            done.calls += 1
            expected = ("error", state, said) if not good else ("null",) if said is None else ("value", decoded(said, result))
            found = self.ours(part, row, types)
            if found[0] in ("value", "null"):
                together.append((row, found))
            if found[0] == "refused":
                done.refused_rows += 1
            elif not same(found, expected) and not (result.label == "character" and blank_trimmed(found) == expected):
                done.wrong.append(f"{function.label} {row}: expected {expected}, found {found}")
        done.wrong += self.wrong_together(part, together, types)
        return done

    def wrong_together(self, part: Any, rows: list[tuple[tuple[str | None, ...], Any]], types: tuple[str, ...]) -> list[str]:
        """Calls that give something else as one batch than each alone."""
        if not rows or not types:
            return []
        vectors = []
        for place, label in enumerate(types):
            payloads = [None if row[place] is None else self.stored(label, row[place]) for row, _ in rows]
            values = Values.of_payloads(payloads, LABELS[label].length)
            vectors.append(Vector(LABELS[label].oid, values.valid, False, values))
        found = part.run(Scope(len(rows), lambda number: vectors[number - 1])).objects(len(rows))
        pairs = zip(found, rows, strict=True)
        return [
            f"{row}: {each} in a batch"
            for each, (row, alone) in pairs
            if not same(("null",) if each is None else ("value", each), alone)
        ]

    def bad_literal(self, row: tuple[str | None, ...], types: tuple[str, ...]) -> bool:
        try:
            for text, label in zip(row, types, strict=True):
                if text is not None:
                    self.stored(label, text)
        except (psycopg.Error, UsageError):
            return True
        return False

    def ours(self, part: Any, row: tuple[str | None, ...], types: tuple[str, ...]) -> tuple[Any, ...]:
        vectors = []
        for text, label in zip(row, types, strict=True):
            payload = None if text is None else self.stored(label, text)
            values = Values.of_payloads([payload], LABELS[label].length)
            vectors.append(Vector(LABELS[label].oid, values.valid, False, values))
        try:
            value = part.run(Scope(1, lambda number: vectors[number - 1])).value()
        except Refused as error:
            return ("refused", str(error))
        except UsageError as error:
            return ("error", error.sqlstate, error.message)
        except Exception as error:
            return ("broken", repr(error))
        return ("null",) if value is None else ("value", value)


def compiled(function: BuiltIn, types: list[PgType], result: PgType, facts: Facts) -> Any:
    columns = tuple(tree.Var(place, pg_type.oid, collation=100) for place, pg_type in enumerate(types, 1))
    try:
        return Compiler(facts).part(tree.FuncExpr(function.oid, result.oid, columns, collation=100, input_collation=100))
    except Refused as error:
        return str(error)


def decoded(text: str, pg_type: PgType) -> Any:
    if pg_type.label == "record":  # of pg_walfile_name_offset
        name, offset = text.strip("()").split(",")
        return RecordValue((oids.TEXT, oids.INT4), (name, int(offset)), (100, 0))
    values = parse_texts(Texts.of([text]), np.ones(1, np.bool_), pg_type)
    return reader_of(pg_type, "UTF8")(values.payload_list()[0])


def same(found: Any, expected: Any) -> bool:
    if (
        isinstance(found, tuple)
        and len(found) == 2
        and isinstance(found[1], bytes)
        and isinstance(expected[-1], bytes)
        and expected[0] == "value"
    ):
        return found == expected or printed_query(found[1]) == printed_query(expected[1])
    if isinstance(found, tuple) and isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float) and isinstance(expected, float):
        return repr(float(found)) == repr(float(expected))
    return bool(found == expected)


def cast(text: str | None, label: str) -> str:
    """A literal of a type without a modifier, which `character` and `bit` alone would have."""
    if label == "bit":
        return "NULL::bit" if text is None else f"B'{text}'"
    return f"{'NULL' if text is None else literal(text)}::{'bpchar' if label == 'character' else label}"


def printed_query(stored: bytes) -> str:
    """A tsquery as text, in which the server's answer comes; how its operators are nested may be lost there."""
    try:
        return format_values(Values.of_payloads([stored], -1), LABELS["tsquery"]).to_list()[0]
    except (struct.error, IndexError):
        return repr(stored)


def blank_trimmed(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """As a cast to text, in which the server's answer comes, makes of a character(n)."""
    return (*found[:-1], found[-1].rstrip(" "))


def literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def all_functions() -> list[BuiltIn]:
    return list(built_in_functions().values())
