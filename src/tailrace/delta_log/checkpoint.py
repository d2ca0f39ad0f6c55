"""Checkpoints of a Delta table's log: all that the table is at a version, as rows of Parquet, both directions (PROTOCOL.md, "Checkpoints").

In: the bytes of a file. Out: its actions, and the names of files that have more of them (sidecars, which checkpoints of the second specification
have); and one file of the first specification from a table's state. Tombstones, which say what VACUUM may delete, are read apart: nobody else asks
for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.delta_log.actions import Action, AddFile, RemoveFile, action_of, damaged, json_of
from tailrace.delta_log.file_statistics import format_statistics
from tailrace.delta_log.log_files import SIDECARS
from tailrace.delta_log.table_state import TableState
from tailrace.delta_log.tombstones import REMOVE, TEXTS, VECTOR, as_columns, columns_of, conformed

_STATE = ("protocol", "metaData", "txn", "domainMetadata", "add")
_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_SCHEMA = pa.schema(
    {
        "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
                "tags": TEXTS,
                "deletionVector": VECTOR,
                "baseRowId": pa.int64(),
                "defaultRowCommitVersion": pa.int64(),
                "clusteringProvider": pa.string(),
            }
        ),
        "remove": REMOVE,
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "name": pa.string(),
                "description": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "createdTime": pa.int64(),
                "configuration": TEXTS,
            }
        ),
        "protocol": pa.struct(
            {
                "minReaderVersion": pa.int32(),
                "minWriterVersion": pa.int32(),
                "readerFeatures": pa.list_(pa.string()),
                "writerFeatures": pa.list_(pa.string()),
            }
        ),
        "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    }
)


def read_checkpoint(data: bytes, name: str) -> tuple[list[Action], list[str]]:
    """Its actions, without tombstones, and the names of its sidecars. Raises CorruptFile, with the `name` of the file."""
    try:
        rows = list(_rows(data, name, (*_STATE, "sidecar")))
        actions = [action for row in rows if "sidecar" not in row and (action := action_of(row)) is not None]
        return actions, [SIDECARS + _last_part(row["sidecar"]["path"]) for row in rows if "sidecar" in row]
    except _ERRORS as error:
        raise damaged(name, f"It is no checkpoint: {error}.") from error


def read_tombstones(data: bytes, name: str) -> list[RemoveFile]:
    """The tombstones of a checkpoint or sidecar. Raises CorruptFile."""
    try:
        actions = [action_of(row) for row in _rows(data, name, ("remove",))]
    except _ERRORS as error:
        raise damaged(name, f"It is no checkpoint: {error}.") from error
    return [action for action in actions if isinstance(action, RemoveFile)]


def sidecars_of(data: bytes, name: str) -> list[str]:
    """The names of a checkpoint's sidecars. Raises CorruptFile."""
    try:
        return [SIDECARS + _last_part(row["sidecar"]["path"]) for row in _rows(data, name, ("sidecar",))]
    except _ERRORS as error:
        raise damaged(name, f"It is no checkpoint: {error}.") from error


def tombstone_columns(data: bytes, name: str) -> pa.StructArray:
    """The tombstones of a checkpoint or sidecar, as `write_checkpoint` takes them. Raises CorruptFile."""
    if name.endswith(".json"):
        return columns_of(read_tombstones(data, name))
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        place = file.schema_arrow.get_field_index("remove")
        if place < 0:
            return columns_of(())
        removed = file.read(columns=["remove"]).column(0).combine_chunks()
        return conformed(removed.filter(removed.is_valid()))
    except pa.ArrowNotImplementedError:
        return columns_of(read_tombstones(data, name))
    except _ERRORS as error:
        raise damaged(name, f"It is no checkpoint: {error}.") from error


def write_checkpoint(state: TableState, tombstones: Iterable[RemoveFile] | pa.StructArray) -> tuple[bytes, int]:
    """The file of a checkpoint, and how many actions are in it."""
    few: list[Action] = [state.protocol, state.metadata, *state.transactions.values(), *state.domains.values()]
    added = as_columns(
        [json_of(AddFile(file, data_change=False))["add"] for file in state.files.values()], _SCHEMA.field("add").type
    )
    removed = tombstones if isinstance(tombstones, pa.StructArray) else columns_of(tombstones)
    parts = [
        pa.Table.from_pylist([_row(action) for action in few], schema=_SCHEMA),
        _only("add", added),
        _only("remove", removed),
    ]
    whole = pa.concat_tables(parts)
    sink = pa.BufferOutputStream()
    pq.write_table(whole, sink, compression="snappy", write_page_checksum=True)
    return sink.getvalue().to_pybytes(), len(whole)


def _only(kind: str, actions: pa.StructArray) -> pa.Table:
    """Rows of one kind of action."""
    columns = [actions if field.name == kind else pa.nulls(len(actions), field.type) for field in _SCHEMA]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def write_last_checkpoint(version: int, actions: int, size: int, files: int) -> bytes:
    """What `_last_checkpoint` says of a checkpoint in one file."""
    return json.dumps({"version": version, "size": actions, "sizeInBytes": size, "numOfAddFiles": files}).encode()


def read_last_checkpoint(data: bytes) -> int | None:
    """The version that it names. It is a hint, so one that cannot be read is none."""
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return version if type(version) is int and version >= 0 else None


def _rows(data: bytes, name: str, kinds: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The rows of these kinds, each by its kind, as JSON has them."""
    if name.endswith(".json"):
        yield from (row for line in data.splitlines() if line.strip() and kinds & (row := json.loads(line)).keys())
        return
    # Spark has timestamps of 96 bits, which in nanoseconds would end in 2262.
    file = pq.ParquetFile(pa.BufferReader(data), coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    schema = file.schema_arrow
    for kind in kinds:
        if schema.get_field_index(kind) < 0:
            continue
        fields = [each.name for each in schema.field(kind).type if each.name not in ("partitionValues_parsed", "stats_parsed")]
        if kind == "add" and "stats" not in fields:
            fields.append("stats_parsed")
        for batch in file.iter_batches(columns=[f"{kind}.{each}" for each in fields]):
            values = batch.column(0)
            for value in values.filter(values.is_valid()).to_pylist():
                yield {kind: _as_json(value)}


def _as_json(value: dict[str, Any]) -> dict[str, Any]:
    if (parsed := value.pop("stats_parsed", None)) is not None:
        value["stats"] = format_statistics(_said(parsed))
    if isinstance(options := value.get("format"), dict):
        value["format"] = {**options, "options": dict(options.get("options") or ())}
    return value


def _said(parsed: Any) -> Any:
    """Statistics as JSON has them. Of what has no form there nothing is said."""
    match parsed:
        case dict():
            said = {name: _said(value) for name, value in parsed.items()}
            return {name: value for name, value in said.items() if value is not None}
        case bool() | int() | str() | Decimal():
            return parsed
        case float():
            return parsed if isfinite(parsed) else None
        case datetime():
            return parsed.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if parsed.tzinfo else "")
        case date():
            return parsed.isoformat()
    return None


def _row(action: Action) -> dict[str, Any]:
    """As `json_of`, with maps as Arrow has them."""
    ((kind, said),) = json_of(action).items()
    for name in ("partitionValues", "tags", "configuration"):
        if isinstance(said.get(name), dict):
            said[name] = list(said[name].items())
    if "format" in said:
        said["format"] = {"provider": said["format"]["provider"], "options": []}
    return {kind: said}


def _last_part(path: str) -> str:
    """The name of a sidecar, which lies in one folder whatever its path says."""
    name = unquote(path).rpartition("/")[2]
    if name in ("", ".", ".."):
        raise ValueError(f'"{path}" is no sidecar')
    return name
