"""An index's bytes on disk, both directions (described in docs/index_format.md).

The layout of the file is `checksummed_file`'s; every array of the index is named by its path (`xids.first_lsn`). A sealed index never changes, so a
file is written once. What is read is checked until every array keeps within its bounds, whoever wrote it: kernels believe them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tailrace.checksummed_file import Dtypes, FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.kernels import kernel
from tailrace.model import Locator, Lsn, Stretch
from tailrace.wal import index as index_module
from tailrace.wal import xact as xact_module
from tailrace.wal.crc import record_crc
from tailrace.wal.framing import RECORD_HEADER
from tailrace.wal.index import FORMAT_VERSION, KEPT_KINDS, Files, Index, KeptRecords, Xids
from tailrace.wal.log_fingerprint import LogFingerprint
from tailrace.wal.record_header import H_CRC, H_LENGTH
from tailrace.wal.unaligned import u32
from tailrace.wal.xact import Ends

INDEX_FILE = FileKind("index", "an index", version=FORMAT_VERSION, compression="lz4")
_PARTS: dict[str, type] = {"xids": Xids, "files": Files, "ends": Ends, "kept": KeptRecords}


def index_dtypes(xid: type = np.uint32) -> dict[str, np.dtype[Any]]:
    """The arrays of an index by path, where xids are as the log has them, or of this type."""
    return _dtypes(Index, xid) | {
        name: kind for part, of in _PARTS.items() for name, kind in _dtypes(of, xid, f"{part}.").items()
    }


def _dtypes(kind: type, xid: type, prefix: str = "") -> dict[str, np.dtype[Any]]:
    """The arrays of a dataclass by name, from how its fields are annotated: xids are of any width there."""
    hints = get_type_hints(kind, vars(xact_module if kind is Ends else index_module))
    arrays = {name: hint for name, hint in hints.items() if get_origin(hint) is np.ndarray}
    kinds = {name: get_args(get_args(hint)[1])[0] for name, hint in arrays.items()}
    return {f"{prefix}{name}": np.dtype(xid if kind is np.integer else kind).newbyteorder("<") for name, kind in kinds.items()}


_DTYPES: Dtypes = index_dtypes()
_SCALARS = {
    name: hint for name, hint in get_type_hints(Index, vars(index_module)).items() if hint in (bool, int, str, Lsn)
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Written:
    """What a file holds: an index, and the fingerprint of the log before the end of its stretch; None if nobody asks."""

    index: Index
    fingerprint: LogFingerprint | None = None


def write_index(index: Index, fingerprint: LogFingerprint | None = None) -> bytes:
    """Raises ValueError for an index that is not sealed: the next scan would make another."""
    if not index.sealed:
        raise ValueError(f"the index of {index.stretch} is not sealed, so it is not kept")
    facts, arrays = content_of_index(index)
    return INDEX_FILE.write({**facts, "stood": None if fingerprint is None else fingerprint.facts()}, arrays)


def read_index(data: bytes, where: str) -> Written:
    """Raises UnsupportedFile for other files and other format versions, CorruptFile for damage and for content that is none of an index."""
    return INDEX_FILE.read_as(data, where, _DTYPES, _written_from)


def _written_from(facts: Any, arrays: Mapping[str, NDArray]) -> Written:
    return Written(index_from(facts, arrays), LogFingerprint.of(facts["stood"]))


def content_of_index(index: Index) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Facts, and arrays by path, for files that hold indexes: sealed or not, with xids of any width."""
    facts: dict[str, Any] = {}
    arrays: dict[str, NDArray] = {}
    for name, value in _leaves(index):
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            facts[name] = [list(file) for file in value] if name == "also" else value
    return facts, arrays


def index_from(facts: Any, arrays: Mapping[str, NDArray]) -> Index:
    """The index that has this content. Raises ValueError if none has."""
    parts = {name: kind(**{part.name: arrays[f"{name}.{part.name}"] for part in fields(kind)}) for name, kind in _PARTS.items()}
    try:
        scalars = {name: fact(facts[name], hint) for name, hint in _SCALARS.items()}
        scalars["stretch"] = Stretch(*(fact(position, Lsn) for position in facts["stretch"]))
        scalars["also"] = tuple(Locator(*(fact(number, int) for number in file)) for file in facts["also"])
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    index = Index(
        **scalars,
        **parts,
        waiting_xid=arrays["waiting_xid"],
        waiting_lsn=arrays["waiting_lsn"],
        waiting_crc=arrays["waiting_crc"],
    )
    if why := _contradiction(index):
        raise ValueError(why)
    return index


def _leaves(index: Index) -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for part in fields(index):
        value = getattr(index, part.name)
        if is_dataclass(value) and not isinstance(value, type):
            leaves += [(f"{part.name}.{leaf.name}", getattr(value, leaf.name)) for leaf in fields(value)]
        else:
            leaves.append((part.name, value))
    return leaves


def _contradiction(index: Index) -> str:
    """What in an index does not agree, empty if all does."""
    kept, ends = index.kept, index.ends
    lists = {
        "subxact_bounds": len(ends.subxids),
        "gid_bounds": len(ends.gids),
        "invalidation_bounds": len(ends.invalidations) // 16,
    }
    for name, kind in _PARTS.items():
        part = getattr(index, name)
        if len({len(getattr(part, leaf.name)) for leaf in fields(kind) if leaf.name not in _OF_OTHER_LENGTH}) > 1:
            return f"the columns of {name} differ in length"
    for name, total in lists.items():
        bounds = getattr(ends, name)
        if len(bounds) != len(ends) + 1 or bounds[0] != 0 or bounds[-1] != total or (np.diff(bounds) < 0).any():
            return f"ends.{name} do not bound their list"
    if not len(index.waiting_xid) == len(index.waiting_lsn) == len(index.waiting_crc):
        return "the columns of the waiting chunks differ in length"
    for name, lsns in (("ends", ends.lsn), ("kept", kept.lsn), ("waiting", index.waiting_lsn)):
        if len(lsns) and not ((lsns >= index.stretch.start) & (lsns < index.stretch.stop)).all():
            return f"{name} lie outside of {index.stretch}"
    if not np.isin(kept.kind, KEPT_KINDS).all():
        return "kept records of no known kind"
    bad = first_unsound_record(kept.data, kept.at, kept.length)
    return f"kept record {bad} is damaged" if bad >= 0 else ""


_OF_OTHER_LENGTH = frozenset(
    {"subxact_bounds", "subxids", "gid_bounds", "gids", "invalidation_bounds", "invalidations", "data"}
)  # fmt: skip


@kernel
def first_unsound_record(data, at, length):  # type: ignore[no-untyped-def]
    """The first of the records `data[at[i] : at[i] + length[i]]` that is none: outside of the array, or with a wrong length or checksum. -1 if all
    are sound."""
    for i in range(len(at)):
        if length[i] < RECORD_HEADER or at[i] < 0 or at[i] + length[i] > len(data) or at[i] + length[i] < at[i]:
            return i
        if u32(data, at[i] + H_LENGTH) != length[i] or np.int64(record_crc(data, at[i], length[i])) != u32(data, at[i] + H_CRC):
            return i
    return -1
