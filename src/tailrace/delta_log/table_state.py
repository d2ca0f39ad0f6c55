"""What a Delta table is, after the actions of its log up to a version (PROTOCOL.md, "Action Reconciliation").

In: actions, commit by commit. Out: `TableState`, a value: what is applied to it makes another. Its invariant is that no path is in two of its files.
Tombstones, by which VACUUM knows what it may delete, are not in it (`checkpoint.py` has them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.delta_log.actions import (
    Action,
    AddFile,
    AppTransaction,
    DataFile,
    DomainMetadata,
    FileKey,
    RemoveFile,
    TableMetadata,
    TableProtocol,
    damaged,
)
from tailrace.delta_log.file_bounds import row_count
from tailrace.delta_log.table_features import DELETION_VECTORS, TIMESTAMP_NTZ, check_readable, check_writable
from tailrace.delta_log.table_schema import has_timestamps_without_zone, parse_schema
from tailrace.errors import UsageError


@dataclass(frozen=True, slots=True)
class TableState:
    """`files` are by path and id of their deletion vector, in the order in which they were added; `transactions` by application; `domains` without
    those that were removed."""

    protocol: TableProtocol
    metadata: TableMetadata
    schema: pa.Schema
    files: Mapping[FileKey, DataFile] = field(default_factory=dict)
    transactions: Mapping[str, AppTransaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)

    def check_readable(self, where: str) -> None:
        """Raises UnsupportedFile."""
        check_readable(self.protocol, self.metadata, self.schema, where)

    def check_commit(self, actions: Iterable[Action], where: str) -> None:
        """Raise UnsupportedFile if writers of this table must know what we do not, and UsageError if these actions, which led to this state from
        `self`, break the protocol."""
        check_writable(self.protocol, self.metadata, self.schema, where)
        gone = {action.key for action in actions if isinstance(action, RemoveFile)}
        for key in gone - self.files.keys():
            raise UsageError(
                f'file "{key[0]}" is to be removed from Delta table {where}, and is not in it', detail=f"Its key is {key}."
            )
        left = {path for path, vector in self.files.keys() - gone}
        added: set[str] = set()
        for action in actions:
            if isinstance(action, AddFile):
                path = action.file.path
                if path in added or (path in left and action.file.key not in self.files):
                    raise UsageError(f'file "{path}" is added to Delta table {where}, and is in it')
                added.add(path)

    def check_features(self, actions: Iterable[Action], where: str) -> None:
        """Raise UsageError if the protocol lacks what these actions, which led to this state, brought into the table."""
        features = self.protocol.reader_features or frozenset()
        if TIMESTAMP_NTZ not in features and has_timestamps_without_zone(self.schema):
            raise UsageError(f"Delta table {where} has timestamps without time zone, and its protocol no {TIMESTAMP_NTZ}")
        for file in (action.file for action in actions if isinstance(action, AddFile)):
            if file.deletion_vector:
                if DELETION_VECTORS not in features:
                    raise UsageError(f"Delta table {where} has deletion vectors, and its protocol no {DELETION_VECTORS}")
                count = row_count(file)
                if count is None or count < file.deletion_vector.cardinality:
                    raise UsageError(f'file "{file.path}" has a deletion vector, and no number of rows that fits')


@dataclass(slots=True)
class Replay:
    """Actions as they are applied, commit by commit, from nothing or from a state on."""

    protocol: TableProtocol | None
    metadata: TableMetadata | None
    files: dict[FileKey, DataFile]
    transactions: dict[str, AppTransaction]
    domains: dict[str, DomainMetadata]

    @classmethod
    def of(cls, state: TableState | None = None) -> Replay:
        if state is None:
            return cls(None, None, {}, {}, {})
        return cls(state.protocol, state.metadata, dict(state.files), dict(state.transactions), dict(state.domains))

    def apply(self, actions: Iterable[Action]) -> None:
        """Those of one commit, or of a checkpoint. Removals come first: a file is taken out with one deletion vector and put in with another in
        one commit, in any order."""
        actions = list(actions)
        for action in actions:
            if isinstance(action, RemoveFile):
                self.files.pop(action.key, None)
        for action in actions:
            match action:
                case AddFile(file):
                    self.files[file.key] = file
                case AppTransaction():
                    self.transactions[action.app_id] = action
                case TableMetadata():
                    self.metadata = action
                case TableProtocol():
                    self.protocol = action
                case DomainMetadata(domain, _, removed):
                    self.domains.pop(domain, None)
                    if not removed:
                        self.domains[domain] = action

    def state(self, name: str, before: TableState | None = None) -> TableState:
        """What has come of it. Raises CorruptFile, with the `name` of the last file, if that is no table; `before` is a state that it went on from,
        whose schema need not be read again."""
        if self.protocol is None or self.metadata is None:
            missing = "protocol" if self.protocol is None else "metadata"
            raise damaged(name, f"Neither it nor what is before it has an action for the {missing} of the table.")
        if before is not None and before.metadata.schema_text == self.metadata.schema_text:
            schema = before.schema
        else:
            schema = parse_schema(self.metadata.schema_text, name)
        paths: dict[str, Any] = {}
        for path, vector in self.files:
            if paths.setdefault(path, vector) != vector:
                raise damaged(name, f'File "{path}" is in the table twice, with two deletion vectors.')
        return TableState(self.protocol, self.metadata, schema, self.files, self.transactions, self.domains)


def with_metadata(state: TableState, **changed: Any) -> TableMetadata:
    """An action that changes these fields of the table's metadata."""
    return replace(state.metadata, **changed)
