"""A catalog state as the bytes of a file, and back. The layout of the file is `checksummed_file`'s.

Kernels check no bounds of a state. So reading one checks that every version lies within its bytes and has the layout of its catalog, though the
checksum is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.catalog.history.user_tables import user_files
from tailrace.catalog.pages.tids import files_of
from tailrace.catalog.rows.layouts import ANY_LAYOUT, layouts_by_oid
from tailrace.catalog.rows.row_versions import VersionColumns, Versions
from tailrace.catalog.state.catalog_state import CatalogState
from tailrace.checksummed_file import Dtypes, FileKind
from tailrace.model import Lsn
from tailrace.tuples.deform import first_misfit
from tailrace.wal.index import TRACKED_CATALOGS
from tailrace.wal.versions import FORMATS

STATE_FILE = FileKind(
    "state", "a catalog state", version=6, compression="zstd",
    hint="Make one with: tailrace catalog capture SOURCE --database DB -o FILE",
)  # fmt: skip
STATE_DTYPES: Dtypes = {
    "rows": np.dtype("<i8"), "store": np.dtype("u1"), "place_key": np.dtype("<i8"), "place_version": np.dtype("<i8"),
}  # fmt: skip
"""The arrays of a state, by name."""


def write_state(state: CatalogState) -> bytes:
    """The file's bytes. The state must be complete (every page known)."""
    return STATE_FILE.write(*content_of_state(state))


def read_state(data: bytes, where: str) -> CatalogState:
    """Raises UnsupportedFile for files that are not a state, or of a format that this version does not read; CorruptFile for damaged ones."""
    return STATE_FILE.read_as(data, where, STATE_DTYPES, state_from)


def content_of_state(state: CatalogState) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Facts and arrays, for files that hold a state."""
    versions = state.versions
    arrays: dict[str, NDArray] = {
        "rows": np.stack(versions.columns, axis=1), "store": versions.tuples,
        "place_key": versions.tids, "place_version": versions.version_at,
    }  # fmt: skip
    facts = {
        "system": state.system, "timeline": state.timeline, "major": state.major, "lsn": str(state.lsn),
        "database": state.database, "database_name": state.database_name, "default_tablespace": state.default_tablespace, "encoding": state.encoding,
        "next_xid": state.next_xid, "files": [[*key, oid] for key, oid in state.files.items()],
        "open": {str(xid): lsn for xid, lsn in state.xids_open.items()}, "knows_comments": state.knows_comments,
    }  # fmt: skip
    return facts, arrays


def state_from(facts: Any, arrays: Mapping[str, NDArray]) -> CatalogState:
    """The state that has this content. Raises ValueError if none has."""
    try:
        state = _state(facts, arrays)
    except (AttributeError, KeyError, OverflowError, TypeError) as error:
        raise ValueError(str(error)) from error
    if why := _contradiction(state):
        raise ValueError(why)
    return state


def _state(facts: Any, arrays: Mapping[str, NDArray]) -> CatalogState:
    rows = arrays["rows"].reshape(-1, len(VersionColumns._fields))
    versions = Versions(
        columns=VersionColumns(*(column.copy() for column in rows.T)),
        tuples=arrays["store"],
        tids=arrays["place_key"],
        version_at=arrays["place_version"],
    )
    return CatalogState(
        system=int(facts["system"]), timeline=int(facts["timeline"]), major=int(facts["major"]), lsn=Lsn.parse(facts["lsn"]),
        database=int(facts["database"]), database_name=str(facts["database_name"]), default_tablespace=int(facts["default_tablespace"]),
        encoding=int(facts["encoding"]), next_xid=int(facts["next_xid"]), versions=versions,
        files={(int(database), int(number)): int(oid) for database, number, oid in facts["files"]}, complete=True, status=None,
        multixacts=None, xids_open={int(xid): int(lsn) for xid, lsn in facts["open"].items()},
        knows_comments=facts.get("knows_comments", False) is True,  # not in marks of before
    )  # fmt: skip


def _contradiction(state: CatalogState) -> str:
    """The first thing about a state that cannot be, empty if there is none."""
    versions, columns = state.versions, state.versions.columns
    if state.major not in FORMATS:
        return f"PostgreSQL {state.major} is not known"
    if not set(state.files.values()) | set(columns.catalog.tolist()) <= set(TRACKED_CATALOGS) | user_files(state.files):
        return "it holds rows of other catalogs"
    at, length = columns.at, columns.length
    if ((at < 0) | (length < 0) | (at > len(versions.tuples)) | (length > len(versions.tuples) - at)).any():
        return "versions lie outside of its bytes"
    if (columns.xmin < 0).any() or (columns.xmax < 0).any():
        return "there are negative transaction ids"
    if len(versions.tids) != len(versions.version_at):
        return "the columns of its places differ in length"
    if (
        versions.version_at >= len(versions)
    ).any():  # a negative one names none: -1, or -1 - the xid that ended one (`catalog/state/forget.py`)
        return "places name versions that are not there"
    if (files_of(versions.tids) >= len(state.files)).any() or (versions.tids < 0).any():
        return "places name files that are not there"
    layouts = layouts_by_oid(state.major) | dict.fromkeys(user_files(state.files), ANY_LAYOUT)
    for catalog, layout in layouts.items():
        mine = np.flatnonzero(columns.catalog == catalog)
        if len(mine) and first_misfit(versions.tuples, at[mine], length[mine], layout.lengths, layout.aligns) >= 0:
            return f"a row does not have the layout of {TRACKED_CATALOGS.get(catalog, f'file {catalog}')}"
    return ""
