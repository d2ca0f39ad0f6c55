"""The formats of a lake's tables by their names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.lake.table import TableVersion
from tailrace.storage.store import Store

DELTA, ICEBERG = "delta", "iceberg"


@dataclass(frozen=True, slots=True)
class TableFormat:
    """`none` gives the version that a table in a store has before it is made or found; `smallint` is the type of Arrow that holds one. The names of
    what says its versions begin with `log`."""

    name: str
    none: Callable[[Store], TableVersion]
    smallint: str
    log: str


_CLASSES = {
    DELTA: ("tailrace.lake.delta.table", "DeltaVersion", "int16", "_delta_log/"),
    ICEBERG: ("tailrace.lake.iceberg.table", "IcebergVersion", "int32", "metadata/v"),
}
FORMATS = tuple(_CLASSES)


def format_named(name: str) -> TableFormat:
    """Raises UsageError if there is none of that name, and where what it needs is not installed."""
    if name not in _CLASSES:
        raise UsageError(f'unrecognized format of tables "{name}"', hint=f"There are {', '.join(_CLASSES)}.", sqlstate="22023")
    module, version, smallint, log = _CLASSES[name]
    try:
        return TableFormat(name, getattr(import_module(module), version), smallint, log)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "pyiceberg":
            raise
        raise UsageError(
            "tables of format iceberg need the package pyiceberg", hint='pip install "tailrace[iceberg]"', sqlstate="0A000"
        ) from error


def format_of(store: Store) -> TableFormat:
    """The format of the table that lies in the store; Delta where none does."""
    found = (name for name, (*_, log) in _CLASSES.items() if next(iter(store.list(log)), None) is not None)
    return format_named(next(found, DELTA))
