"""Names of columns: of the table, by itself or behind its name (`parser/parse_relation.c`, `parser/parse_expr.c` transformColumnRef).

In: the words of a reference. Out: a `Column`: of the table, one of the system's (a negative number), or the whole row (0). What is not there is
refused with the server's hint, if a column has nearly that name.
"""

from __future__ import annotations

from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.expressions import tree
from tailrace.expressions.analysis.state import ROW_TYPE, Forbidden, Node, ParseState
from tailrace.majors import RANGE_TABLE_DETAILS, supports
from tailrace.types import oids

SYSTEM_COLUMNS = {
    "ctid": (-1, oids.TID), "xmin": (-2, oids.XID), "cmin": (-3, oids.CID), "xmax": (-4, oids.XID), "cmax": (-5, oids.CID),
    "tableoid": (-6, oids.OID),
}  # fmt: skip
"""Their numbers and types (`access/sysattr.h`)."""
FURTHEST = 3
"""MAX_FUZZY_DISTANCE: by how much a name may differ from one that is hinted at."""


def transform_column(state: ParseState, raw: Any) -> Node:
    """transformColumnRef."""
    location = state.place(raw)
    fields = [str(each.sval) if hasattr(each, "sval") else None for each in raw.fields]
    if len(fields) == 1:
        name = str(fields[0])
        found = _column(state, name, location)
        if found is not None:
            return found
        if name == state.relation.name:
            return whole_row(location)
        raise _missing_column(state, "", name, location)
    if len(fields) > 4:
        shown = ".".join(map(str, fields))
        raise state.error(f"improper qualified name (too many dotted names): {shown}", "42601", location)
    if len(fields) == 4:
        shown = ".".join(map(str, fields))
        raise state.error(f"cross-database references are not implemented: {shown}", "0A000", location)
    table, last = str(fields[-2]), fields[-1]
    if table == state.relation.name and len(fields) == 3 and fields[0] != state.relation.schema:
        raise _wrong_schema(state, table, location)
    if table != state.relation.name:
        raise state.error(f'missing FROM-clause entry for table "{table}"', "42P01", location)
    if last is None:
        return whole_row(location)
    found = _column(state, last, location)
    if found is None:
        raise _missing_column(state, table, last, location)
    return found


def _wrong_schema(state: ParseState, table: str, location: int) -> UsageError:
    message = f'invalid reference to FROM-clause entry for table "{table}"'
    why = f'There is an entry for table "{table}", but it cannot be referenced from this part of the query.'
    if supports(state.catalog.major, RANGE_TABLE_DETAILS):
        return state.error(message, "42P01", location, detail=why)
    return state.error(message, "42P01", location, hint=why)


def whole_row(location: int) -> tree.Var:
    return tree.Var(0, ROW_TYPE, location=location)


def _column(state: ParseState, name: str, location: int) -> tree.Var | None:
    entry = state.columns.get(name)
    if entry is not None:
        return tree.Var(entry.number, entry.type, entry.typmod, entry.collation, location=location)
    if name in SYSTEM_COLUMNS:
        number, kind = SYSTEM_COLUMNS[name]
        return tree.Var(number, kind, location=location)
    return None


def field_of(state: ParseState, node: Node, name: str, location: int) -> Node | None:
    """A field of a composite value, None if its type has none of that name."""
    if isinstance(node, tree.Var) and node.attnum == 0:
        return _column(state, name, node.location)
    row = state.catalog.types.get(state.catalog.base_type(node.type))
    for field, kind, typmod in row.fields if row is not None else ():
        if field == name:
            return Forbidden("FieldSelect", kind, (node,), typmod, 0, location)
    return None


@dataclass(slots=True)
class _Nearest:
    """Names at the least distance so far; more than two are as good as none, but nothing further counts (updateFuzzyAttrMatchState)."""

    distance: int = FURTHEST + 1
    names: tuple[str, ...] = ()
    too_many: bool = False

    def see(self, wanted: str, name: str, penalty: int) -> None:
        if penalty > self.distance:
            return
        distance = edit_distance(name, wanted)
        if distance > len(wanted) // 2 or distance > self.distance + 1 - penalty:
            return
        distance += penalty
        if distance < self.distance:
            self.distance, self.names, self.too_many = distance, (name,), False
        elif distance == self.distance:
            if len(self.names) == 2:
                self.names, self.too_many = (), True
            elif len(self.names) == 1:
                self.names = (*self.names, name)


def _missing_column(state: ParseState, table: str, name: str, location: int) -> UsageError:
    nearest = _Nearest()
    penalty = min(edit_distance(table, state.relation.name), FURTHEST + 1) if table else 0
    for each in state.relation.live_columns:
        nearest.see(name, each.name, penalty)
    shown = [f'the column "{state.relation.name}.{each}"' for each in nearest.names]
    hint = f"Perhaps you meant to reference {' or '.join(shown)}." if shown else ""
    message = f"column {table}.{name} does not exist" if table else f'column "{name}" does not exist'
    return state.error(message, "42703", location, hint=hint)


def edit_distance(one: str, other: str) -> int:
    """Levenshtein's: insertions, deletions and substitutions, each of one."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, seen in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != seen))
    return row[-1]
