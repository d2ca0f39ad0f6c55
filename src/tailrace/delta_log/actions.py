"""Actions of a Delta table's log, as lines of JSON, both directions.

In: the bytes of a commit. Out: actions in their order, and the same back. What the protocol adds to an action and nobody here needs to understand, as
the ids of rows, is kept and written again. Actions that change nothing of what the table holds, and such as are unknown, are passed over, as the
protocol has it: what must be understood is a feature that the table's `protocol` names (`table_features.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote, unquote

from tailrace.dataclass import dataclass
from tailrace.delta_log.deletion_vector import DeletionVector
from tailrace.delta_log.file_statistics import with_wide_bounds
from tailrace.errors import CorruptFile, UnsupportedFile

_NOTHING: Mapping[str, Any] = {}
"""One for all files that have no tags or values of a partition: tables have many files."""
_NOT_BELOW = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/|(?:.*/)?\.\.(?:/|$)")
FileKey = tuple[str, str]
"""Of a file of the table: its path, and the unique id of its deletion vector, empty if it has none."""
_KEPT = ("baseRowId", "defaultRowCommitVersion", "clusteringProvider")
_PLAIN = "/!$&'()*+,;=:@~-._"
"""What a path may have beside letters and digits; all else is written as %XX (RFC 2396, pchar)."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, less those that its deletion vector names. `path` is relative to the table; `modified` is in milliseconds of Unix's clock;
    `statistics` is the JSON text that the log has of it (`file_statistics.py`), empty if it has none."""

    path: str
    size: int
    modified: int
    statistics: str = ""
    deletion_vector: DeletionVector | None = None
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    tags: Mapping[str, str | None] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else ""

    def without(self, deleted: DeletionVector) -> DataFile:
        """The same file with these rows deleted, and no others."""
        return replace(self, deletion_vector=deleted, statistics=with_wide_bounds(self.statistics))


@dataclass(frozen=True, slots=True)
class AddFile:
    """`data_change` is False if its rows were in the table before."""

    file: DataFile
    data_change: bool = True


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """`removed` is in milliseconds of Unix's clock; `size` None: neither that nor the partition's values are known."""

    path: str
    removed: int | None
    deletion_vector: DeletionVector | None = None
    data_change: bool = True
    size: int | None = None
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> FileKey:
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else ""

    @classmethod
    def of(cls, file: DataFile, removed: int, *, data_change: bool = True) -> RemoveFile:
        """What takes `file` out of the table at that time."""
        return cls(file.path, removed, file.deletion_vector, data_change, file.size, file.partition_values, file.more)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """`schema_text` is the JSON text of the columns (`table_schema.py`)."""

    id: str
    schema_text: str
    name: str | None = None
    description: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    created: int | None = None


@dataclass(frozen=True, slots=True)
class TableProtocol:
    """Features are None below the versions that name any: 3 for readers, 7 for writers."""

    reader: int
    writer: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class AppTransaction:
    """How far an application is, in its own numbers."""

    app_id: str
    version: int
    updated: int | None = None


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What a commit says of itself, for people and for who made it."""

    said: Mapping[str, Any]

    @property
    def timestamp(self) -> int | None:
        """In milliseconds of Unix's clock."""
        at = self.said.get("inCommitTimestamp", self.said.get("timestamp"))
        return at if isinstance(at, int) else None


Action = AddFile | RemoveFile | TableMetadata | TableProtocol | AppTransaction | DomainMetadata | CommitInfo


def read_actions(data: bytes, name: str) -> list[Action]:
    """The actions of a commit. Raises CorruptFile, with the `name` of its file."""
    actions = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                said = json.loads(line)
                action = action_of(said)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise damaged(name, f"Line {number} is no action: {_reason(error)}.") from error
            if action is not None:
                actions.append(action)
    return actions


def write_actions(actions: Iterable[Action]) -> bytes:
    """Those of a commit, a line each."""
    return b"".join(json.dumps(json_of(action), ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for action in actions)


def action_of(said: Mapping[str, Any]) -> Action | None:
    """One action, by its name. None if it is of a kind that changes nothing of a table's files, columns and positions. Raises KeyError, TypeError,
    AttributeError or ValueError for what is none."""
    for name, read in _READERS.items():
        found = said.get(name)
        if found is not None:
            return read(found)
    return None


def json_of(action: Action) -> dict[str, Any]:
    """The action as JSON, below its name."""
    match action:
        case AddFile():
            return {"add": _add_json(action)}
        case RemoveFile():
            return {"remove": _remove_json(action)}
        case TableMetadata():
            return {"metaData": _metadata_json(action)}
        case TableProtocol():
            return {"protocol": _protocol_json(action)}
        case AppTransaction():
            return {"txn": _without_none({"appId": action.app_id, "version": action.version, "lastUpdated": action.updated})}
        case DomainMetadata():
            return {"domainMetadata": {"domain": action.domain, "configuration": action.configuration, "removed": action.removed}}
        case CommitInfo():
            return {"commitInfo": dict(action.said)}


def check_in_folder(path: str) -> None:
    """Raise UnsupportedFile for a path that does not lead to what lies below the table's folder, as it may in the clone of a table."""
    if _NOT_BELOW.match(path):
        raise UnsupportedFile(f'file "{path}" does not lie in the folder of its Delta table', file=path)


def damaged(name: str, detail: str) -> CorruptFile:
    return CorruptFile(f'invalid file "{name}" in the log of a Delta table', detail=detail, file=name)


def _read_add(said: Mapping[str, Any]) -> AddFile:
    return AddFile(
        DataFile(
            path=unquote(_text(said["path"]), errors="strict"),
            size=_number(said["size"]),
            modified=_number(said["modificationTime"]),
            statistics=_text(said.get("stats") or ""),
            deletion_vector=_vector(said),
            partition_values=_mapping(said.get("partitionValues")),
            tags=_mapping(said.get("tags")),
            more=_kept(said),
        ),
        bool(said["dataChange"]),
    )


def _add_json(action: AddFile) -> dict[str, Any]:
    file = action.file
    return _without_none(
        {
            "path": quote(file.path, safe=_PLAIN),
            "partitionValues": dict(file.partition_values),
            "size": file.size,
            "modificationTime": file.modified,
            "dataChange": action.data_change,
            "stats": file.statistics or None,
            "tags": dict(file.tags) or None,
            "deletionVector": file.deletion_vector.as_json() if file.deletion_vector else None,
            **file.more,
        }
    )


def _read_remove(said: Mapping[str, Any]) -> RemoveFile:
    size, at = said.get("size"), said.get("deletionTimestamp")
    return RemoveFile(
        path=unquote(_text(said["path"]), errors="strict"),
        removed=None if at is None else _number(at),
        deletion_vector=_vector(said),
        data_change=bool(said["dataChange"]),
        size=None if size is None else _number(size),
        partition_values=_mapping(said.get("partitionValues")),
        more=_kept(said),
    )


def _remove_json(action: RemoveFile) -> dict[str, Any]:
    is_known = action.size is not None
    return _without_none(
        {
            "path": quote(action.path, safe=_PLAIN),
            "deletionTimestamp": action.removed,
            "dataChange": action.data_change,
            "extendedFileMetadata": True if is_known else None,
            "partitionValues": dict(action.partition_values) if is_known else None,
            "size": action.size,
            "deletionVector": action.deletion_vector.as_json() if action.deletion_vector else None,
            **action.more,
        }
    )


def _read_metadata(said: Mapping[str, Any]) -> TableMetadata:
    provider = (said.get("format") or {}).get("provider", "parquet")
    if provider != "parquet":
        raise ValueError(f'files are of format "{provider}"')
    return TableMetadata(
        id=_text(said["id"]),
        schema_text=_text(said["schemaString"]),
        name=said.get("name"),
        description=said.get("description"),
        partition_columns=tuple(said["partitionColumns"] or ()),
        configuration=_mapping(said.get("configuration")),
        created=said.get("createdTime"),
    )


def _metadata_json(action: TableMetadata) -> dict[str, Any]:
    return _without_none(
        {
            "id": action.id,
            "name": action.name,
            "description": action.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": action.schema_text,
            "partitionColumns": list(action.partition_columns),
            "configuration": dict(action.configuration),
            "createdTime": action.created,
        }
    )


def _read_protocol(said: Mapping[str, Any]) -> TableProtocol:
    reader, writer = _number(said["minReaderVersion"]), _number(said["minWriterVersion"])
    return TableProtocol(
        reader,
        writer,
        _features(said.get("readerFeatures"), reader >= 3),
        _features(said.get("writerFeatures"), writer >= 7),
    )


def _features(names: Any, has_some: bool) -> frozenset[str] | None:
    return frozenset(map(_text, names or ())) if has_some else None


def _protocol_json(action: TableProtocol) -> dict[str, Any]:
    return _without_none(
        {
            "minReaderVersion": action.reader,
            "minWriterVersion": action.writer,
            "readerFeatures": None if action.reader_features is None else sorted(action.reader_features),
            "writerFeatures": None if action.writer_features is None else sorted(action.writer_features),
        }
    )


def _read_transaction(said: Mapping[str, Any]) -> AppTransaction:
    return AppTransaction(_text(said["appId"]), _number(said["version"]), said.get("lastUpdated"))


def _read_domain(said: Mapping[str, Any]) -> DomainMetadata:
    return DomainMetadata(_text(said["domain"]), _text(said.get("configuration") or ""), bool(said.get("removed")))


def _read_commit_info(said: Mapping[str, Any]) -> CommitInfo:
    return CommitInfo(dict(said))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Action]] = {
    "add": _read_add,
    "remove": _read_remove,
    "txn": _read_transaction,
    "commitInfo": _read_commit_info,
    "metaData": _read_metadata,
    "protocol": _read_protocol,
    "domainMetadata": _read_domain,
}


def _vector(said: Mapping[str, Any]) -> DeletionVector | None:
    vector = said.get("deletionVector")
    return None if vector is None else DeletionVector.of_json(vector)


def _kept(said: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: said[name] for name in _KEPT if said.get(name) is not None} or _NOTHING


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    """Arrow has maps as lists of pairs."""
    if not value:
        return _NOTHING
    return {_text(name): each for name, each in (value.items() if isinstance(value, dict) else value)}


def _without_none(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def _reason(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)
