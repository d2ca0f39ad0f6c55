"""The functions of the manual's SQL interface, by major: names, arguments, defaults and results (`catalog/pg_proc.dat`, facts of 14 to 18).

`moves` says of a function that it changes a slot, an origin, or their set, so that it must run exactly once; the others only read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tailrace.dataclass import dataclass
from tailrace.majors import FAILOVER_SLOTS, IN_ALL, Capability, Compared, supports
from tailrace.sql.sql_types import label

Columns = tuple[tuple[str, str], ...]
"""Names and types."""

REQUIRED = object()
"""The default of an argument that has none."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    kind: str
    default: object = REQUIRED
    needs: Capability = IN_ALL


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """`variadic` names a last argument of type text[]. `strict`: with a NULL argument it is not called, and its result is NULL. A function whose
    `columns` are several gives a record, or with `is_set` rows of it; one that has one gives a value of its own name."""

    name: str
    arguments: tuple[Argument, ...]
    columns: Columns
    strict: bool = False
    is_set: bool = False
    moves: bool = False
    variadic: str = ""

    @property
    def is_record(self) -> bool:
        return len(self.columns) > 1

    @property
    def signature(self) -> str:
        """As pg_proc names it, with the types that errors show."""
        kinds = [argument.kind for argument in self.arguments] + (["text[]"] if self.variadic else [])
        return f"{self.name}({','.join(map(label, kinds))})"


_CHANGES = (Argument("slot_name", "name"), Argument("upto_lsn", "pg_lsn"), Argument("upto_nchanges", "int4"))
_TEXT_ROWS: Columns = (("lsn", "pg_lsn"), ("xid", "xid"), ("data", "text"))
_BINARY_ROWS: Columns = (("lsn", "pg_lsn"), ("xid", "xid"), ("data", "bytea"))
_SLOT_AND_LSN: Columns = (("slot_name", "name"), ("lsn", "pg_lsn"))


def _changes(name: str, columns: Columns, *, moves: bool) -> SqlFunction:
    return SqlFunction(name, _CHANGES, columns, is_set=True, moves=moves, variadic="options")


def _value(name: str, kind: str, *kinds: str, moves: bool = False) -> SqlFunction:
    """A strict function whose arguments have no names."""
    return SqlFunction(name, tuple(Argument("", each) for each in kinds), ((name, kind),), strict=True, moves=moves)


def _named(name: str, kind: str, *arguments: Argument, moves: bool = True) -> SqlFunction:
    return SqlFunction(name, arguments, ((name, kind),), strict=True, moves=moves)


_ALL: tuple[SqlFunction, ...] = (
    _changes("pg_logical_slot_get_changes", _TEXT_ROWS, moves=True),
    _changes("pg_logical_slot_peek_changes", _TEXT_ROWS, moves=False),
    _changes("pg_logical_slot_get_binary_changes", _BINARY_ROWS, moves=True),
    _changes("pg_logical_slot_peek_binary_changes", _BINARY_ROWS, moves=False),
    SqlFunction(
        "pg_create_logical_replication_slot",
        (
            Argument("slot_name", "name"), Argument("plugin", "name"), Argument("temporary", "bool", False),
            Argument("twophase", "bool", False), Argument("failover", "bool", False, FAILOVER_SLOTS),
        ),
        _SLOT_AND_LSN, strict=True, moves=True,
    ),
    _named("pg_drop_replication_slot", "void", Argument("slot_name", "name")),
    SqlFunction(
        "pg_copy_logical_replication_slot",
        (
            Argument("src_slot_name", "name"), Argument("dst_slot_name", "name"), Argument("temporary", "bool", None),
            Argument("plugin", "name", None),
        ),
        _SLOT_AND_LSN, strict=True, moves=True,
    ),
    SqlFunction(
        "pg_replication_slot_advance", (Argument("slot_name", "name"), Argument("upto_lsn", "pg_lsn")),
        (("slot_name", "name"), ("end_lsn", "pg_lsn")), strict=True, moves=True,
    ),
    _value("pg_replication_origin_create", "oid", "text", moves=True),
    _value("pg_replication_origin_drop", "void", "text", moves=True),
    _value("pg_replication_origin_oid", "oid", "text"),
    _value("pg_replication_origin_advance", "void", "text", "pg_lsn", moves=True),
    _value("pg_replication_origin_progress", "pg_lsn", "text", "bool"),
    _value("pg_current_wal_lsn", "pg_lsn"),
    _value("pg_current_wal_flush_lsn", "pg_lsn"),
    _value("pg_current_wal_insert_lsn", "pg_lsn"),
)  # fmt: skip
NEED_A_SERVER = frozenset(
    {
        "pg_logical_emit_message", "pg_create_physical_replication_slot", "pg_copy_physical_replication_slot",
        "pg_replication_origin_session_setup", "pg_replication_origin_session_reset", "pg_replication_origin_session_is_setup",
        "pg_replication_origin_session_progress", "pg_replication_origin_xact_setup", "pg_replication_origin_xact_reset",
        "pg_sync_replication_slots", "pg_stat_reset_replication_slot", "pg_switch_wal",
    }
)  # fmt: skip
"""Those that only a server that writes the log can carry out."""


COMPARED = Compared(__name__, "catalog/pg_proc.dat, the functions whose names hold slot, origin or wal", upto=18)


@cache
def functions_of(major: int) -> dict[str, SqlFunction]:
    """What a server of this major has, by name."""
    COMPARED.check(major)
    return {
        each.name: replace(each, arguments=tuple(argument for argument in each.arguments if supports(major, argument.needs)))
        for each in _ALL
    }
