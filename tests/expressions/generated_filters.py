"""Filters made by chance, of a server's operators and functions over the columns of `filter_rows`; seeded."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import psycopg
from edge_values import VALUES
from filter_rows import COLUMNS
from function_calls import literal

from tailrace.expressions.evaluate.executor.fmgrtab import IMPLEMENTATIONS
from tailrace.expressions.evaluate.fmgr.pg_proc import built_in_functions

OPERATORS = """
SELECT format_type(oprleft, NULL), oprname::text, format_type(oprright, NULL), format_type(oprresult, NULL), oprcode::oid::int
FROM pg_operator WHERE oid < 10000 AND oprkind = 'b' ORDER BY oid
"""
SKIPPED = frozenset({"character", "bit", '"char"', "cid"})
"""Types that a cast without a modifier changes, or without a column."""


class Generator:
    """Makes conditions of a depth; what the server would not accept, as a literal that is none of its type, may be among them."""

    def __init__(self, server: psycopg.Connection[Any], seed: int) -> None:
        self.chance = random.Random(seed)
        self.columns = defaultdict(list)
        for name, label in COLUMNS.items():
            self.columns[label.replace("(5)", "")].append(name)
        self.by_result: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        known = {oid for oid, function in built_in_functions().items() if function.symbol in IMPLEMENTATIONS}
        for left, name, right, result, function in server.execute(OPERATORS).fetchall():
            if function in known and all(
                each in VALUES and each in self.columns and each not in SKIPPED for each in (left, right)
            ):
                self.by_result[result].append((left, name, right))
        self.types = [label for label in self.columns if label in VALUES and label not in SKIPPED]

    def condition(self, depth: int) -> str:
        kind = self.chance.randrange(12)
        if depth <= 0 or kind < 5:
            return self.operation("boolean", depth)
        inner = [self.condition(depth - 1) for _ in range(2)]
        match kind:
            case 5 | 6:
                return f"({inner[0]} AND {inner[1]})"
            case 7:
                return f"({inner[0]} OR {inner[1]})"
            case 8:
                return f"(NOT {inner[0]})"
            case 9:
                return f"CASE WHEN {inner[0]} THEN {inner[1]} ELSE {self.condition(depth - 1)} END"
            case 10:
                return f"(({inner[0]}) IS {self.chance.choice(['TRUE', 'NOT TRUE', 'UNKNOWN', 'NOT FALSE', 'NULL'])})"
        label = self.chance.choice(self.types)
        return f"({self.value(label, depth - 1)} IS {self.chance.choice(['NULL', 'NOT NULL'])})"

    def operation(self, result: str, depth: int) -> str:
        left, name, right = self.chance.choice(self.by_result[result])
        return f"({self.value(left, depth - 1)} OPERATOR(pg_catalog.{name}) {self.value(right, depth - 1)})"

    def value(self, label: str, depth: int) -> str:
        kind = self.chance.randrange(10)
        if depth > 0 and kind < 3 and self.by_result.get(label):
            return self.operation(label, depth)
        if depth > 0 and kind == 3:
            return f"COALESCE({self.value(label, 0)}, {self.value(label, depth - 1)})"
        if kind < 8:
            return self.chance.choice(self.columns[label])
        return f"{literal(self.chance.choice(VALUES[label]))}::{label}"
