"""How far a lake table is, and which table of the source it is, kept in the table itself: written in the same commit as its rows,
so they never differ.

The position is an application transaction (`tailrace/<system>/<timeline>` -> LSN), which Delta's own protocol keeps forever. What
the table is (database and oid, which are its identity whatever folder it lies in, its name and columns, and whether it was
dropped since) stands in the table's configuration, which checkpoints keep as well. Versions of tailrace that wrote that in a commit of its own
have a second application transaction in each commit (`…/table` -> CRC-32) say which configuration belongs to it; so do we, for them. In tables that
are older, each commit's metadata says the same: people see it in the table's history, which others may clean up. State of a table: absent, ours at a
position, or somebody else's (left alone).

Whether the log is still the one that a table was made from (`history_error`): a server may have been put back to an earlier copy
of itself, and have written other things since; or it was promoted below what the table has seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any
from zlib import crc32

from tailrace.apply.keys import key_of
from tailrace.changes import DEFAULT, row_schema
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, TailraceError, UsageError
from tailrace.feed import Feed, FeedSpan
from tailrace.lake.files.comments import COMMENTED, LakeComments
from tailrace.lake.files.statistics import without_statistics
from tailrace.lake.table import METADATA, CommitNote, FileLayout, OpenTable
from tailrace.model import PAGE_SIZE, Lsn, Relation
from tailrace.types.registry import ArrowStyle
from tailrace.wal.log_fingerprint import Difference, Kind, LogFingerprint

CONFIGURATION = "tailrace"
QUARANTINE = "tailrace.quarantine"
"""Where a table says which of its changes it does not have (`lake/quarantine.py`)."""
PRIMARY_KEY, REPLICA_IDENTITY = "tailrace.primaryKey", "tailrace.replicaIdentity"
"""Properties for others, in JSON: the columns of the source's primary key (null: it has none, or a feed of messages does not say), and those of its
replica identity, or "FULL", or "NOTHING"."""
_TABLE, _FINGERPRINT, _CHECKSUMS = "/table", "/stood", "/stood/checksums"
STYLES = ("numeric", "arrays", "times")
"""Settings of ArrowStyle that a table is written with, and keeps."""


_HINT = (
    "The server was put back to an earlier copy of itself, or lost the end of its log: "
    "the table has seen a history that is gone. Undo that, or make the table anew, in another directory."
)


@dataclass(frozen=True, slots=True)
class TablePosition:
    """What a commit says of a table: its position, which relation it follows, the columns it had then, as (attribute number,
    name, type), and whether a DROP TABLE is behind it."""

    lsn: Lsn
    oid: int
    schema: str
    name: str
    columns: tuple[tuple[int, str, str], ...]
    unbounded: frozenset[str] = frozenset()
    """Columns that hold, or once held, what Delta's statistics cannot say (`lake/delta/statistics.py`)."""
    style: Mapping[str, str] = field(default_factory=dict)
    dropped: Lsn | None = None
    fingerprint: LogFingerprint | None = None
    """What stood in the log before `lsn`; None in what was written before that was kept."""
    timeline: int = 0
    """Of that log."""


def _app_id(system: int, timeline: int) -> str:
    return f"{METADATA}/{system}/{timeline}"


def columns_of(relation: Relation, style: ArrowStyle = DEFAULT) -> tuple[tuple[int, str, str], ...]:
    fields = row_schema(relation, style)
    return tuple((column.number, column.name, str(fields.field(column.name).type)) for column in relation.live_columns)


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """What a table is once a commit is made, whatever its position."""

    span: FeedSpan
    relation: Relation
    style: ArrowStyle = DEFAULT
    unbounded: frozenset[str] | None = frozenset()
    """None: a table of changes."""
    dropped: Lsn | None = None
    fingerprint: LogFingerprint | None = None
    """What stands before `span.stop`. It changes with each commit, and is none of what the configuration says."""
    kept: tuple[tuple[int, str, str], ...] = ()
    """Columns that the table has, and the relation has no more."""
    comments: LakeComments | None = None
    """None: nothing is known of them."""
    quarantine: str | None = None
    """What the table is to say of changes that are in quarantine; None: what it does."""
    copied: str = ""
    """If the commit fills the table anew, the digest of the snapshot that the rows are of (`lake/table_copy.py`)."""

    @property
    def text(self) -> str:
        """As the configuration has it."""
        return json.dumps(self._said, sort_keys=True)

    @property
    def _said(self) -> dict[str, Any]:
        span, relation = self.span, self.relation
        return {
            "system": str(span.system), "timeline": span.timeline, "database": span.database,
            "publications": list(span.publications), "oid": relation.oid, "schema": relation.schema, "table": relation.name,
            "columns": self._columns,
            "key": self._key, "unbounded": sorted(self.unbounded or ()), "style": {name: getattr(self.style, name) for name in STYLES},
            "dropped": str(self.dropped) if self.dropped is not None else None,
        }  # fmt: skip

    @property
    def _key(self) -> list[str] | None:
        """None of a table of changes, whose rows have an order."""
        return None if self.unbounded is None else list(key_of(self.relation))

    @property
    def _columns(self) -> tuple[tuple[int, str, str], ...]:
        own = columns_of(self.relation, self.style)
        columns = (*own, *self.kept)
        return tuple(sorted(columns)) if own == tuple(sorted(own)) else columns

    @property
    def note(self) -> CommitNote:
        """What makes a commit say: now at `span.stop`, and this is what the table is."""
        span = self.span
        said = {**self._said, "from": str(span.start), "to": str(span.stop), **({"copied": self.copied} if self.copied else {})}
        numbers = {"": int(span.stop), _TABLE: crc32(self.text.encode()), **_numbers_of(self.fingerprint)}
        app_id = _app_id(span.system, span.timeline)
        by_name = {app_id + what: number for what, number in numbers.items()}
        quarantine = {} if self.quarantine is None else {QUARANTINE: self.quarantine}
        commented = {} if self.comments is None else {COMMENTED: self.comments.setting}
        settings = {CONFIGURATION: self.text, **_keys_of(self.relation), **commented, **quarantine}
        return CommitNote({METADATA: json.dumps(said)}, by_name, self.unbounded, settings, comments=self.comments)


def _keys_of(relation: Relation) -> dict[str, str]:
    names = {column.number: column.name for column in relation.live_columns}

    def named(numbers: tuple[int, ...]) -> list[str]:
        return [names[number] for number in numbers if number in names]

    primary = relation.primary_key or (relation.identity if relation.replica_identity == "d" else ())
    identity = named(relation.identity) or ("FULL" if relation.replica_identity == "f" else "NOTHING")
    said = {PRIMARY_KEY: named(primary) or None, REPLICA_IDENTITY: identity}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in said.items()}


def layout_of(table: OpenTable) -> FileLayout | None:
    """How the rows of a table lie in its files; None if it does not say that it is ours, or an older version said so, which the next commit puts
    right."""
    said = json.loads(table.setting(CONFIGURATION) or "{}")
    if "key" not in said:
        return None
    if said["key"] is None:
        return FileLayout(("commit_lsn", "lsn", "sequence"), without_statistics(table.schema, None))
    return FileLayout(tuple(said["key"]), without_statistics(table.schema, frozenset(said["unbounded"])))


def _numbers_of(fingerprint: LogFingerprint | None) -> dict[str, int]:
    """As application transactions have it: two integers of 64 bits."""
    if fingerprint is None or fingerprint.since % PAGE_SIZE:
        return {_FINGERPRINT: 0, _CHECKSUMS: 0}
    pages = fingerprint.upto // PAGE_SIZE - fingerprint.since // PAGE_SIZE
    both = fingerprint.crc | fingerprint.together << 32
    return {
        _FINGERPRINT: (fingerprint.upto - fingerprint.last) << 32 | pages,
        _CHECKSUMS: both - (1 << 64) if both >> 63 else both,
    }


def _fingerprint_of(table: OpenTable, app_id: str, upto: Lsn) -> LogFingerprint | None:
    packed, both = table.number(app_id + _FINGERPRINT), table.number(app_id + _CHECKSUMS)
    if not packed or both is None:
        return None
    since = (upto // PAGE_SIZE - (packed & 0xFFFF_FFFF)) * PAGE_SIZE
    return LogFingerprint(upto, Lsn(upto - (packed >> 32)), both & 0xFFFF_FFFF, Lsn(since), both >> 32 & 0xFFFF_FFFF)


def position_of(table: OpenTable, span: FeedSpan) -> TablePosition | None:
    """Where `table` is on the line of `span`, maybe on an earlier timeline; None if it was not written from there, or of other
    publications. Raises MissingHistory if it was, and no longer says what it is, and UsageError if it follows a later timeline by
    now."""
    kept = table.setting(CONFIGURATION)
    timeline, app_id = span.timeline, _app_id(span.system, span.timeline)
    lsn = table.number(app_id)
    if lsn is None and kept:
        said = json.loads(kept)
        if said["system"] == str(span.system) and said["timeline"] < span.timeline:
            timeline, app_id = said["timeline"], _app_id(span.system, said["timeline"])
            lsn = table.number(app_id)
    if lsn is None:
        return None
    is_kept = kept and table.number(app_id + _TABLE) == crc32(kept.encode())
    said = json.loads(kept) if is_kept else _said_of(table)
    if said["database"] != span.database or set(said.get("publications", ())) != set(span.publications):
        return None
    if said["timeline"] > span.timeline:
        raise UsageError(
            f"the table follows timeline {said['timeline']}, and the log is of timeline {span.timeline}",
            hint="Give the log of the server that was promoted.", sqlstate="55000",
        )  # fmt: skip
    columns = tuple((number, name, kind) for number, name, kind in said["columns"])
    dropped = Lsn.parse(said["dropped"]) if said["dropped"] else None
    return TablePosition(
        Lsn(lsn), said["oid"], said["schema"], said["table"], columns, frozenset(said["unbounded"]), said["style"], dropped,
        _fingerprint_of(table, app_id, Lsn(lsn)), timeline,
    )  # fmt: skip


def _said_of(table: OpenTable) -> dict[str, Any]:
    """The metadata of the last commit of ours."""
    if (said := table.said()) is not None:
        return said
    raise MissingHistory(
        "the table has a position, and nothing in it says any more which table it is",
        hint="Its log was cleaned up before a run of this version has seen it. Move its folder away, and make the table anew.",
    )


def check_reaches(span: FeedSpan, position: Lsn, name: str) -> FeedSpan:
    """The part of `span` that a table at `position` still lacks. Raises MissingHistory if there is a hole between them."""
    if position < span.start:
        raise MissingHistory(
            f"table {name} is at {position}, but changes are at hand only from {span.start}",
            hint="Give the WAL in between, or make the table anew.",
            lsn=position,
        )
    return replace(span, start=position)


def history_error(
    span: FeedSpan, difference: Callable[[LogFingerprint], Difference | None], position: TablePosition, name: str
) -> TailraceError | None:
    """What is wrong with going on from where the table is: it has seen a history that is gone. None if nothing is, as far as can
    be told; on another timeline it must be told. `difference` is the feed's."""
    where = position.timeline, position.lsn
    return _history_error(span, difference, position.fingerprint, where, f"table {name}")


def check_history(fingerprint: LogFingerprint | None, timeline: int, feed: Feed, upto: Lsn, what: str) -> None:
    """Raise the same of a whole lake that is complete up to there, on that timeline."""
    if fingerprint is None and timeline == feed.span.timeline:
        return
    error = _history_error(feed.span, feed.difference, fingerprint, (timeline, upto), what)
    if error is not None:
        raise error


def _history_error(
    span: FeedSpan, difference: Callable[[LogFingerprint], Difference | None], fingerprint: LogFingerprint | None,
    where: tuple[int, Lsn], what: str,
) -> TailraceError | None:  # fmt: skip
    timeline, lsn = where
    found = difference(fingerprint) if fingerprint is not None else None
    if timeline != span.timeline and (fingerprint is None or (found is not None and found.kind is Kind.UNKNOWN)):
        return UsageError(
            f"{what} follows timeline {timeline}; whether timeline {span.timeline} is the same up to {lsn} cannot be told",
            hint="Give older WAL, or make the table anew, in another directory.", sqlstate="55000", lsn=lsn,
        )  # fmt: skip
    if fingerprint is None or found is None or found.kind is Kind.UNKNOWN:
        return None
    if found.kind is Kind.SHORT:
        return MissingHistory(
            f"{what} has all changes before {fingerprint.upto}, but the log ends at {found.at}",
            detail=_detail(fingerprint), hint=_HINT, context=found.why, lsn=fingerprint.last, sqlstate="55000",
        )  # fmt: skip
    return UsageError(
        f"{what} has all changes before {fingerprint.upto}, but the log has another record at {found.at} than was read there",
        detail=_detail(fingerprint), hint=_HINT, context=found.why, lsn=fingerprint.last, sqlstate="55000",
    )  # fmt: skip


def _detail(fingerprint: LogFingerprint) -> str:
    return f"The last record before {fingerprint.upto} was at {Lsn(fingerprint.last)}, with checksum {fingerprint.crc:08X}."
