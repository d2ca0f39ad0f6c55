"""An index's bytes on disk, both directions (described in docs/index_format.md).

An Arrow IPC file of one row: every array of the index is a binary column named by its path (`xids.first_lsn`), its dtype and
shape implied by the index's own
definition; scalars and the format version are JSON in the schema's metadata. A sealed index never changes, so a file is written once.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.model import Locator, Lsn, Stretch
from tailrace.wal import index as index_module
from tailrace.wal.index import FORMAT_VERSION, Files, Index, Kept, Xids
from tailrace.wal.xact import Ends

_KEY = b"tailrace.index"
_PARTS: dict[str, type] = {"xids": Xids, "files": Files, "ends": Ends, "kept": Kept}


def write_index(index: Index) -> bytes:
    """Raises UsageError for an index that is not sealed: the next scan would make another."""
    if not index.sealed:
        raise UsageError(f"the index of {index.stretch} is not sealed, so it is not kept")
    facts: dict[str, Any] = {"format": FORMAT_VERSION, "dtypes": {}}
    columns: dict[str, bytes] = {}
    for name, value in _leaves(index):
        if isinstance(value, np.ndarray):
            columns[name] = value.tobytes()
            facts["dtypes"][name] = value.dtype.str
        else:
            facts[name] = [list(file) for file in value] if name == "also" else value
    batch = pa.record_batch([pa.array([data], pa.large_binary()) for data in columns.values()], names=list(columns))
    batch = batch.replace_schema_metadata({_KEY: json.dumps(facts)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_index(data: bytes, where: str) -> Index:
    """Raises UsageError for other files and other format versions."""
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        facts = json.loads((table.schema.metadata or {})[_KEY])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise UsageError(f'"{where}" is not an index') from error
    if facts["format"] != FORMAT_VERSION:
        raise UsageError(f'index "{where}" has format {facts["format"]}, this version reads {FORMAT_VERSION}')
    arrays = {
        name: np.frombuffer(table.column(name)[0].as_py(), np.dtype(dtype)).copy() for name, dtype in facts["dtypes"].items()
    }
    parts = {name: kind(**{part.name: arrays[f"{name}.{part.name}"] for part in fields(kind)}) for name, kind in _PARTS.items()}
    hints = get_type_hints(Index, vars(index_module))
    scalars: dict[str, Any] = {}
    for part in fields(Index):
        if part.name in facts and part.name not in arrays:
            value = facts[part.name]
            scalars[part.name] = Lsn(value) if hints[part.name] is Lsn else value
    scalars["stretch"] = Stretch(*(Lsn(position) for position in facts["stretch"]))
    scalars["also"] = tuple(Locator(*file) for file in facts["also"])
    return Index(**scalars, **parts, waiting_xid=arrays["waiting_xid"], waiting_lsn=arrays["waiting_lsn"])


def _leaves(index: Index) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for part in fields(index):
        value = getattr(index, part.name)
        if is_dataclass(value) and not isinstance(value, type):
            found += [(f"{part.name}.{leaf.name}", getattr(value, leaf.name)) for leaf in fields(value)]
        else:
            found.append((part.name, value))
    return found
