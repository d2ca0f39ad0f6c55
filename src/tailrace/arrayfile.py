"""Arrays and facts as one file's bytes, both directions: what indexes and catalog states are kept in.

An Arrow IPC file of one row. Every array is a binary column with its name; the schema's metadata holds, under the kind of the file, JSON: the facts,
the format version, and the dtype of each array. Whoever uses this says what the names mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.errors import UsageError


@dataclass(frozen=True, slots=True)
class FileKind:
    """`key` marks the files, `noun` names them in errors, `hint` says how to get one; `version` is the only one that is read."""

    key: str
    noun: str
    version: int
    compression: str
    hint: str = ""

    def write(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> bytes:
        """`facts` must be JSON; arrays of more than one dimension lose their shape."""
        said = {"format": self.version, "dtypes": {name: array.dtype.str for name, array in arrays.items()}, **facts}
        batch = pa.record_batch([pa.array([array.tobytes()], pa.large_binary()) for array in arrays.values()], names=list(arrays))
        batch = batch.replace_schema_metadata({self.key: json.dumps(said)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=self.compression)) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())

    def read(self, data: bytes, where: str) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Raises UsageError for other files and other versions; `where` names the file."""
        try:
            table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
            facts = json.loads((table.schema.metadata or {})[self.key.encode()])
        except (pa.ArrowInvalid, KeyError, ValueError) as error:
            raise UsageError(f'"{where}" is not {self.noun}', hint=self.hint) from error
        if facts["format"] != self.version:
            raise UsageError(
                f'"{where}" is {self.noun} of format {facts["format"]}, this version reads {self.version}', hint=self.hint
            )
        kinds = facts["dtypes"].items()
        return facts, {name: np.frombuffer(table.column(name)[0].as_py(), np.dtype(kind)).copy() for name, kind in kinds}
