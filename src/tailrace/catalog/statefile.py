"""A catalog state's bytes on disk, both directions. The layout of the file is `checksummed_file`'s.

What is read is checked until every version lies within its bytes and has the layout of its catalog, whoever wrote it: kernels believe it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.layouts import layouts_by_oid
from tailrace.catalog.redo import V_AT, V_CATALOG, V_FIELDS, V_LENGTH, V_XMAX, V_XMIN, Versions, file_of
from tailrace.catalog.state import CatalogState
from tailrace.checksummed_file import Dtypes, FileKind
from tailrace.model import Lsn
from tailrace.tuples.deform import first_misfit
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wal.versions import FORMATS

STATE_FILE = FileKind(
    "state", "a catalog state", version=5, compression="zstd",
    hint="Make one with: tailrace catalog capture SOURCE --database DB -o FILE",
)  # fmt: skip
_DTYPES: Dtypes = {
    "rows": np.dtype("<i8"), "store": np.dtype("u1"), "place_key": np.dtype("<i8"), "place_version": np.dtype("<i8"),
}  # fmt: skip


def write_state(state: CatalogState) -> bytes:
    """Only complete states (every page known) are written."""
    versions = state.versions
    arrays: dict[str, NDArray] = {
        "rows": versions.rows, "store": versions.store, "place_key": versions.place_key, "place_version": versions.place_version,
    }  # fmt: skip
    facts = {
        "system": state.system, "timeline": state.timeline, "major": state.major, "lsn": str(state.lsn),
        "database": state.database, "database_name": state.database_name, "default_tablespace": state.default_tablespace, "encoding": state.encoding,
        "next_xid": state.next_xid, "files": [[*key, oid] for key, oid in state.files.items()],
        "open": {str(xid): lsn for xid, lsn in state.xids_open.items()},
    }  # fmt: skip
    return STATE_FILE.write(facts, arrays)


def read_state(data: bytes, where: str) -> CatalogState:
    """Raises UsageError for files that are not a state, or of a format that this version does not read; CorruptFile for damaged ones."""
    facts, arrays = STATE_FILE.read(data, where, _DTYPES)
    try:
        state = _state(facts, arrays)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise STATE_FILE.unsound(where, str(error)) from error
    if why := _contradiction(state):
        raise STATE_FILE.unsound(where, why)
    return state


def _state(facts: dict[str, Any], arrays: dict[str, NDArray]) -> CatalogState:
    versions = Versions(arrays["rows"].reshape(-1, V_FIELDS), arrays["store"], arrays["place_key"], arrays["place_version"])
    return CatalogState(
        system=int(facts["system"]), timeline=int(facts["timeline"]), major=int(facts["major"]), lsn=Lsn.parse(facts["lsn"]),
        database=int(facts["database"]), database_name=str(facts["database_name"]), default_tablespace=int(facts["default_tablespace"]),
        encoding=int(facts["encoding"]), next_xid=int(facts["next_xid"]), versions=versions,
        files={(int(database), int(number)): int(oid) for database, number, oid in facts["files"]}, complete=True, status=None,
        multixacts=None, xids_open={int(xid): int(lsn) for xid, lsn in facts["open"].items()},
    )  # fmt: skip


def _contradiction(state: CatalogState) -> str:
    """What in a state does not agree, empty if all does."""
    versions, rows = state.versions, state.versions.rows
    if state.major not in FORMATS:
        return f"PostgreSQL {state.major} is not known"
    if not set(state.files.values()) | set(rows[:, V_CATALOG].tolist()) <= set(TRACKED_CATALOGS):
        return "it holds rows of other catalogs"
    at, length = rows[:, V_AT], rows[:, V_LENGTH]
    if ((at < 0) | (length < 0) | (at > len(versions.store)) | (length > len(versions.store) - at)).any():
        return "versions lie outside of its bytes"
    if (rows[:, (V_XMIN, V_XMAX)] < 0).any():
        return "there are negative transaction ids"
    if len(versions.place_key) != len(versions.place_version):
        return "the columns of its places differ in length"
    if ((versions.place_version < -1) | (versions.place_version >= len(versions))).any():
        return "places name versions that are not there"
    if (file_of(versions.place_key) >= len(state.files)).any() or (versions.place_key < 0).any():
        return "places name files that are not there"
    for catalog, layout in layouts_by_oid(state.major).items():
        mine = np.flatnonzero(rows[:, V_CATALOG] == catalog)
        if len(mine) and first_misfit(versions.store, at[mine], length[mine], layout.lengths, layout.aligns) >= 0:
            return f"a row does not have the layout of {TRACKED_CATALOGS[catalog]}"
    return ""
