"""A catalog state's bytes on disk: an Arrow IPC file of one row, whose schema metadata begins with its kind and format version."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from tailrace.catalog.redo import V_FIELDS, Versions
from tailrace.catalog.state import CatalogState
from tailrace.errors import UsageError
from tailrace.model import Lsn

_KEY = b"tailrace.catalog_state"
FORMAT_VERSION = 1


def write_state(state: CatalogState) -> bytes:
    """Only complete states (every page known) are written."""
    versions = state.versions
    arrays = {
        "rows": versions.rows.tobytes(),
        "store": versions.store.tobytes(),
        "place_key": versions.place_key.tobytes(),
        "place_version": versions.place_version.tobytes(),
    }
    facts = {
        "format": FORMAT_VERSION, "system": state.system, "timeline": state.timeline, "major": state.major, "lsn": str(state.lsn),
        "database": state.database, "database_name": state.database_name, "default_tablespace": state.default_tablespace,
        "next_xid": state.next_xid, "files": [[*key, oid] for key, oid in state.files.items()],
        "open": {str(xid): lsn for xid, lsn in state.xids_open.items()},
    }  # fmt: skip
    batch = pa.record_batch([pa.array([data], pa.large_binary()) for data in arrays.values()], names=list(arrays))
    batch = batch.replace_schema_metadata({_KEY: json.dumps(facts)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_state(data: bytes, where: str) -> CatalogState:
    """Raises UsageError for files that are not a state, or of a format that this version does not read."""
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        facts = json.loads((table.schema.metadata or {})[_KEY])
    except (pa.ArrowInvalid, KeyError, ValueError) as error:
        raise UsageError(f'"{where}" is not a catalog state', hint="Make one with: tailrace catalog capture SOURCE --database DB -o FILE") from error
    if facts["format"] != FORMAT_VERSION:
        raise UsageError(f'catalog state "{where}" has format {facts["format"]}, this version reads {FORMAT_VERSION}')

    def array(name: str) -> np.ndarray:
        return np.frombuffer(table.column(name)[0].as_py(), np.int64).copy()

    versions = Versions(
        array("rows").reshape(-1, V_FIELDS),
        np.frombuffer(table.column("store")[0].as_py(), np.uint8).copy(),
        array("place_key"),
        array("place_version"),
    )
    return CatalogState(
        system=facts["system"], timeline=facts["timeline"], major=facts["major"], lsn=Lsn.parse(facts["lsn"]), database=facts["database"],
        database_name=facts["database_name"], default_tablespace=facts["default_tablespace"], next_xid=facts["next_xid"], versions=versions,
        files={(database, number): oid for database, number, oid in facts["files"]}, complete=True, status=None,
        xids_open={int(xid): lsn for xid, lsn in facts["open"].items()},
    )  # fmt: skip
