"""What a function takes and gives, as \\df shows it (`print_function_arguments`, `print_function_rettype` in `utils/adt/ruleutils.c`).

In: a snapshot of the catalogs, and what prints types and expressions. Out: texts. Which aggregates are of ordered sets says pg_aggregate, which is
not tracked: of those that are built in it is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tailrace.catalog.rows.column_values import HEADER, oid_vector, text_elements
from tailrace.dataclass import dataclass
from tailrace.majors import Compared
from tailrace.model import FIRST_UNPINNED_OID
from tailrace.publications.catalog_snapshot import CatalogSnapshot
from tailrace.sql.views.index_definition import nodes_of
from tailrace.types.quoting import quote_identifier

_COLUMNS = (
    "oid", "proname", "pronamespace", "prokind", "proretset", "prorettype", "pronargs", "proargtypes", "proallargtypes", "proargmodes",
    "proargnames", "proargdefaults",
)  # fmt: skip
COMPARED = Compared(__name__, "pg_aggregate on a server", upto=18)
_DIRECT_ARGUMENTS = {
    "percentile_disc": 1, "percentile_cont": 1, "mode": 0, "rank": 1, "percent_rank": 1, "cume_dist": 1, "dense_rank": 1,
}  # fmt: skip
"""Aggregates of ordered sets: how many arguments stand before ORDER BY (pg_aggregate.aggnumdirectargs)."""
_WORDS = {"i": "", "o": "OUT ", "b": "INOUT ", "v": "VARIADIC ", "t": ""}


@dataclass(frozen=True, slots=True)
class _Argument:
    mode: str
    name: str
    type: int
    default: str = ""


class FunctionSignatures:
    """Of one snapshot. `type_name` prints a type, `deparsed` the node tree of a default."""

    def __init__(self, snapshot: CatalogSnapshot, type_name: Callable[[int], str | None], deparsed: Callable[[str], str]) -> None:
        self._snapshot, self._major, self._codec = snapshot, snapshot.history.major, snapshot.history.codec or "utf-8"
        self._functions = snapshot.history.table_with("pg_proc", _COLUMNS)
        self._type_name, self._deparsed = type_name, deparsed

    def arguments(self, oid: int) -> str | None:
        """pg_get_function_arguments."""
        row = self._row(oid)
        return None if row is None else self._printed(row, has_defaults=True)

    def identity_arguments(self, oid: int) -> str | None:
        """pg_get_function_identity_arguments, by which a function is named."""
        row = self._row(oid)
        return None if row is None else self._printed(row, has_defaults=False)

    def result(self, oid: int) -> str | None:
        """pg_get_function_result; NULL for a procedure."""
        row = self._row(oid)
        if row is None or self._letter("prokind", row) == "p":
            return None
        is_set = bool(self._functions["proretset"][row])
        columns = [each for each in self._arguments(row) if each.mode == "t"] if is_set else []
        if columns:
            return f"TABLE({', '.join(self._one(each) for each in columns)})"
        return ("SETOF " if is_set else "") + str(self._type_name(int(self._functions["prorettype"][row])))

    def is_visible(self, oid: int) -> bool | None:
        """Whether the search path leads to it, and to no other of its name and arguments before (`FunctionIsVisible`)."""
        row = self._row(oid)
        if row is None:
            return None
        functions, path = self._functions, self._snapshot.search_path
        same = functions.seen_where("proname", functions.name("proname", row), self._snapshot.lsn, -1).tolist()
        taken = functions["proargtypes"][row]
        schemas = {
            self._snapshot.schema_name(int(functions["pronamespace"][each]))
            for each in same
            if functions["proargtypes"][each] == taken
        }
        first = next((each for each in path if each in schemas), None)
        return first is not None and first == self._snapshot.schema_name(int(functions["pronamespace"][row]))

    # -- how a signature is put together -------------------------------------------------------------------------------------------

    def _row(self, oid: int) -> int | None:
        rows = self._functions.seen_where("oid", oid, self._snapshot.lsn, -1)
        return int(rows[-1]) if len(rows) else None

    def _letter(self, column: str, row: int) -> str:
        return chr(self._functions[column][row])

    def _arguments(self, row: int) -> Iterator[_Argument]:
        """All of them, results among them, as `get_func_arg_info` gives them."""
        functions = self._functions
        every, modes, names = (functions[column][row] for column in ("proallargtypes", "proargmodes", "proargnames"))
        types: Sequence[int] = oid_vector(functions["proargtypes"][row] if every is None else every)
        letters = "i" * len(types) if modes is None else modes[HEADER:].decode()
        called = (
            [""] * len(types) if names is None else [each.decode(self._codec, "surrogateescape") for each in text_elements(names)]
        )
        stored = functions["proargdefaults"][row]
        defaults = [] if stored is None else list(nodes_of(stored.decode(self._codec)))
        inputs = int(functions["pronargs"][row])
        for mode, name, kind in zip(letters, called, types, strict=True):
            is_input = mode in "ibv"
            inputs -= is_input
            has_default = is_input and inputs < len(defaults)
            yield _Argument(mode, name, kind, defaults[len(defaults) - inputs - 1] if has_default else "")

    def _printed(self, row: int, *, has_defaults: bool) -> str:
        shown = [each for each in self._arguments(row) if each.mode != "t"]
        said = [self._one(each, is_procedure=self._letter("prokind", row) == "p", has_default=has_defaults) for each in shown]
        direct = self._direct_arguments(row)
        if direct is None:
            return ", ".join(said)
        ordered = said[direct:] or said[-1:]  # what is variadic stands on both sides
        return " ".join([*filter(None, [", ".join(said[:direct])]), "ORDER BY " + ", ".join(ordered)])

    def _direct_arguments(self, row: int) -> int | None:
        """None for what is no aggregate of an ordered set."""
        is_built_in = int(self._functions["oid"][row]) < FIRST_UNPINNED_OID and self._letter("prokind", row) == "a"
        return _DIRECT_ARGUMENTS.get(self._functions.name("proname", row)) if is_built_in else None

    def _one(self, argument: _Argument, *, is_procedure: bool = False, has_default: bool = True) -> str:
        word = "IN " if is_procedure and argument.mode == "i" else _WORDS[argument.mode]
        name = f"{quote_identifier(argument.name, self._major)} " if argument.name else ""
        default = f" DEFAULT {self._deparsed(argument.default)}" if argument.default and has_default else ""
        return f"{word}{name}{self._type_name(argument.type)}{default}"
