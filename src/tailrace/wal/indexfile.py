"""An index's bytes on disk, both directions (described in docs/index_format.md).

The layout of the file is `arrayfile`'s; every array of the index is named by its path (`xids.first_lsn`). A sealed index never changes, so a file is
written once.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tailrace.arrayfile import FileKind
from tailrace.errors import UsageError
from tailrace.model import Locator, Lsn, Stretch
from tailrace.wal import index as index_module
from tailrace.wal.index import FORMAT_VERSION, Files, Index, Kept, Xids
from tailrace.wal.xact import Ends

INDEX_FILE = FileKind("tailrace.index", "an index", version=FORMAT_VERSION, compression="lz4")
_PARTS: dict[str, type] = {"xids": Xids, "files": Files, "ends": Ends, "kept": Kept}


def write_index(index: Index) -> bytes:
    """Raises UsageError for an index that is not sealed: the next scan would make another."""
    if not index.sealed:
        raise UsageError(f"the index of {index.stretch} is not sealed, so it is not kept")
    facts: dict[str, Any] = {}
    arrays: dict[str, NDArray] = {}
    for name, value in _leaves(index):
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            facts[name] = [list(file) for file in value] if name == "also" else value
    return INDEX_FILE.write(facts, arrays)


def read_index(data: bytes, where: str) -> Index:
    """Raises UsageError for other files and other format versions."""
    facts, arrays = INDEX_FILE.read(data, where)
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
