"""Which features of Delta's protocol a table needs, and which of them are understood here (PROTOCOL.md, "Table Features").

A feature that the protocol lists need not be in use: delta-rs, for instance, lists variantType where deletion vectors are enabled. What is not in
use is no obstacle, so each feature that is not understood has a question here, whether the table uses it; of one that has none, nothing is known, and
the table is refused by the feature's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tailrace.delta_log.actions import TableMetadata, TableProtocol
from tailrace.delta_log.table_schema import has_timestamps_without_zone
from tailrace.errors import UnsupportedFile

DELETION_VECTORS, TIMESTAMP_NTZ = "deletionVectors", "timestampNtz"
ENABLE_DELETION_VECTORS = "delta.enableDeletionVectors"
_UNDERSTOOD = frozenset({DELETION_VECTORS, TIMESTAMP_NTZ, "v2Checkpoint", "vacuumProtocolCheck", "domainMetadata"})
_NEWEST_READER, _NEWEST_WRITER = 3, 7
_ADDED_BY_WRITERS = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
"""What versions below 7 of the writer's protocol asked for, without a name."""
Uses = Callable[[TableMetadata, pa.Schema], bool]


def _is_set(setting: str) -> Uses:
    return lambda metadata, schema: metadata.configuration.get(setting, "false").lower() == "true"


def _has_settings(prefix: str) -> Uses:
    return lambda metadata, schema: any(name.startswith(prefix) for name in metadata.configuration)


def _says_of_columns(prefix: bytes) -> Uses:
    return lambda metadata, schema: any(_mentions(field, prefix) for field in schema)


def _mentions(field: pa.Field, prefix: bytes) -> bool:
    if any(name.removeprefix(b"json:").startswith(prefix) for name in field.metadata or {}):
        return True
    kind = field.type
    return pa.types.is_nested(kind) and any(_mentions(kind.field(place), prefix) for place in range(kind.num_fields))


def _maps_columns(metadata: TableMetadata, schema: pa.Schema) -> bool:
    return metadata.configuration.get("delta.columnMapping.mode", "none") != "none"


def _never(metadata: TableMetadata, schema: pa.Schema) -> bool:
    return False


_READERS: Mapping[str, Uses] = {
    "columnMapping": _maps_columns,
    "typeWidening": _says_of_columns(b"delta.typeChanges"),
    "typeWidening-preview": _says_of_columns(b"delta.typeChanges"),
    "variantType": _never,  # a column of that type is refused as such
    "variantType-preview": _never,
    "variantShredding": _never,
    "variantShredding-preview": _never,
}
_WRITERS: Mapping[str, Uses] = {
    **_READERS,
    "appendOnly": _is_set("delta.appendOnly"),
    "invariants": _says_of_columns(b"delta.invariants"),
    "checkConstraints": _has_settings("delta.constraints."),
    "changeDataFeed": _is_set("delta.enableChangeDataFeed"),
    "generatedColumns": _says_of_columns(b"delta.generationExpression"),
    "identityColumns": _says_of_columns(b"delta.identity."),
    "allowColumnDefaults": _never,  # for statements that name no value; we name all
    "inCommitTimestamp": _is_set("delta.enableInCommitTimestamps"),
}


def protocol_for(schema: pa.Schema, *, deletion_vectors: bool) -> TableProtocol:
    """The least that readers and writers of a new table must know."""
    names = {DELETION_VECTORS} if deletion_vectors else set()
    if has_timestamps_without_zone(schema):
        names.add(TIMESTAMP_NTZ)
    features = frozenset(names)
    return TableProtocol(_NEWEST_READER, _NEWEST_WRITER, features, features) if features else TableProtocol(1, 2)


def with_features(protocol: TableProtocol, features: frozenset[str]) -> TableProtocol:
    """The protocol that has these features, too; the same if it has them. One that named none says by name what it asked for until now."""
    if features <= (protocol.reader_features or frozenset()):
        return protocol
    readers = protocol.reader_features or frozenset({"columnMapping"} if protocol.reader == 2 else ())
    writers = frozenset(_writer_features(protocol))
    return TableProtocol(_NEWEST_READER, _NEWEST_WRITER, readers | features, writers | readers | features)


def check_readable(protocol: TableProtocol, metadata: TableMetadata, schema: pa.Schema, where: str) -> None:
    """Raise UnsupportedFile, with the first thing that a reader would have to know and we do not."""
    if protocol.reader > _NEWEST_READER:
        raise _refused(where, "read", f"version {protocol.reader} of the protocol for readers")
    features = sorted(protocol.reader_features or ()) if protocol.reader >= 3 else ["columnMapping"] * (protocol.reader == 2)
    for feature in features:
        if feature not in _UNDERSTOOD and _READERS.get(feature, _always)(metadata, schema):
            raise _refused(where, "read", f'feature "{feature}"')


def check_writable(protocol: TableProtocol, metadata: TableMetadata, schema: pa.Schema, where: str) -> None:
    """The same for who writes to it."""
    check_readable(protocol, metadata, schema, where)
    if protocol.writer > _NEWEST_WRITER:
        raise _refused(where, "write to", f"version {protocol.writer} of the protocol for writers")
    for feature in _writer_features(protocol):
        if feature not in _UNDERSTOOD and _WRITERS.get(feature, _always)(metadata, schema):
            raise _refused(where, "write to", f'feature "{feature}"')


def _writer_features(protocol: TableProtocol) -> Iterator[str]:
    if protocol.writer_features is not None:
        yield from sorted(protocol.writer_features)
    else:
        yield from (name for version, names in _ADDED_BY_WRITERS.items() if version <= protocol.writer for name in names)


def _always(metadata: TableMetadata, schema: pa.Schema) -> bool:
    return True


def _refused(where: str, what: str, why: str) -> UnsupportedFile:
    return UnsupportedFile(f"cannot {what} Delta table {where}", detail=f"It needs {why}, which is not supported.")
