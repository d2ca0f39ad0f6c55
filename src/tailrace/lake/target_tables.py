"""Which tables a run is about, where they lie, and how far they are.

In: a feed, a directory, and the names asked for. Out: `TargetTable`s to bring up, and what is wrong with other tables, by name. A
table of the lake is the relation with its oid, whatever either is called; folders follow names (`lake/folders.py`), and have
their new ones before anything is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache, partial
from pathlib import Path

from tailrace.catalog.names.qualified_names import read_table_name, write_table_name
from tailrace.dataclass import dataclass
from tailrace.errors import InsufficientLogging, MissingHistory, Overtaken, PeerError, TailraceError, UsageError
from tailrace.feed import Feed, FeedSpan, FeedTable, TableTruncation, WantedTable
from tailrace.lake.delta.table import DeltaVersion, find, is_begun, log_of, tables_in
from tailrace.lake.files.comments import LakeComments
from tailrace.lake.folders import Claim, folders_for, is_filled, move
from tailrace.lake.position import STYLES, TablePosition, check_reaches, history_error, position_of
from tailrace.lake.table import AGAIN, TABLE_ERRORS, TableVersion
from tailrace.model import FIRST_NORMAL_OID, Comments, Lsn, Relation
from tailrace.publications.subscription import only_columns
from tailrace.storage.local_store import LocalStore
from tailrace.types.quoting import quote_identifier
from tailrace.types.registry import ArrowStyle
from tailrace.wal.log_fingerprint import LogFingerprint

Names = set[tuple[str, str]] | None
"""The tables that are asked for, by schema and name; None: all."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table to bring to the end of `span`. `found` and `position` are what is there already: what is written goes on from that
    version. Of what the feed says of it, `dropped`, `rewrites` and `truncations` are as in `FeedTable`; `lost` are the numbers of columns of
    `relation` that were dropped in the span, and are there for rows of before."""

    relation: Relation
    dropped: Lsn | None
    style: ArrowStyle
    found: TableVersion
    position: TablePosition | None
    span: FeedSpan
    fingerprint_before: Callable[[Lsn], LogFingerprint | None]
    rewrites: frozenset[int] = frozenset()
    truncations: tuple[TableTruncation, ...] = ()
    lost: frozenset[int] = frozenset()
    comments: Comments | None = None
    commented: bool = False
    """Whether comments may have changed in the span. Both are as in `FeedTable`."""
    quarantine: str | None = None
    """What the commit is to say of changes that are in quarantine (`lake/quarantine.py`); None: what the table says."""
    copied: str = ""
    """Of a table that is filled anew, the digest of the snapshot under which its rows were copied."""

    @property
    def name(self) -> str:
        return _name(self.relation)

    @property
    def path(self) -> Path:
        """Of one in a directory."""
        return self.found.path

    def said(self, *, in_changes: bool = False) -> LakeComments | None:
        """What the table is to say of itself, and of its columns, which lie in the rows of a table of changes if that is said."""
        if self.comments is None:
            return None
        return LakeComments.of(self.comments, self.relation, self.lost, in_changes=in_changes)

    def wanted(self, *, fill_missing: bool) -> WantedTable:
        """What a feed is asked for to bring it up."""
        return WantedTable(self.relation, self.style, int(self.span.start), fill_missing)


_UP_TO_THERE = (
    "Bring it up to there first, with a range that ends at {}; if one transaction did both, have the table copied again."
)
WRITES_ANEW = "ALTER a_column TYPE its_type USING coalesce(a_column, a_column)"
"""Of an ALTER TABLE. Where USING names the column alone, a server writes nothing anew."""
_WRITE_ANEW = f"Have all rows written anew: ALTER TABLE … REPLICA IDENTITY FULL, {WRITES_ANEW}."
_NOT_TOLD_APART = f"The rows that were changed since cannot be told apart. {_WRITE_ANEW}"


class TroubleWarning(UserWarning):
    """A table could not be brought up; others were."""


@dataclass(slots=True)
class TableErrors:
    """What is wrong with which tables, by name (or the folder's, where that is all there is). An error of one keeps no other from
    going on. The feed says where a table became one that the changes do not fit."""

    feed: Feed
    of_tables: list[tuple[str, TailraceError]] = field(default_factory=list)
    by_oid: dict[int, TailraceError] = field(default_factory=dict)
    """Those of tables that the feed knows."""

    @contextmanager
    def of(self, name: str, relation: Relation | None = None) -> Iterator[None]:
        """What is raised inside is this table's error."""
        try:
            yield
        except TailraceError as error:
            self.add(name, error, relation)
        except TABLE_ERRORS as error:
            self.add(name, PeerError("could not read or write the table", context=f"table {name}: {error}"))

    @contextmanager
    def of_target(self, target: TargetTable) -> Iterator[None]:
        """The same, of a table that is brought up inside."""
        with self.of(target.name, target.relation), target.found.going_on(target.name):
            yield

    def warn(self) -> None:
        """Say it to those who do not look at what is returned."""
        for name, error in self.of_tables:
            warnings.warn(f"table {name} stays where it is: {error}", TroubleWarning, stacklevel=3)

    def add(self, name: str, error: TailraceError, relation: Relation | None = None) -> None:
        """An error whose cause is a new type of a column, or a replica identity that is gone, says where that was; and what helps where there was
        none, since one for later changes says nothing of those that the log has already."""
        if relation is not None and error.sqlstate == "42804" and (changed := self.feed.retypes(relation.oid)):
            column, lsn = changed[-1]
            error.hint = f"Column {column} was given another type at {lsn}. {error.hint}"
        if relation is not None and isinstance(error, InsufficientLogging):
            if lost := self.feed.identity_lost(relation.oid):
                helps = _UP_TO_THERE if error.lsn is not None and error.lsn < lost else _NOT_TOLD_APART
                error.hint = f"The table lost its replica identity at {lost}. {helps.format(lost)}"
            else:
                error.hint = _WRITE_ANEW
        if relation is not None:
            self.by_oid[relation.oid] = error
        self.of_tables.append((name, error))


@dataclass(frozen=True, slots=True)
class _LakeTable:
    """A table of ours that is in the lake."""

    found: DeltaVersion
    position: TablePosition
    wrong: list[str]
    """Files whose statistics are."""
    gone: TailraceError | None
    """What it has seen of a history that is gone: it is not to be touched."""

    @property
    def path(self) -> Path:
        return self.found.path

    @property
    def named(self) -> tuple[str, str]:
        """The schema and the name that it had when it was written."""
        return self.position.schema, self.position.name


def find_target_tables(
    feed: Feed, directory: Path, names: Sequence[str] | None, style: ArrowStyle, *, keep_dropped: bool
) -> tuple[list[TargetTable], TableErrors]:
    """The tables to bring up, in the order of their names: those that changed (or are `names`), and those in the lake, whose
    positions move on even if nothing happened to them. Without `keep_dropped`, none is begun that is dropped already. Raises
    UsageError for what is no name."""
    span, errors = feed.span, TableErrors(feed)
    wanted = {read_table_name(name) for name in names} if names is not None else None
    there = _tables_in_lake(feed, directory, errors)
    tables = dict(feed.tables(sorted(wanted or ())))
    _add_unchanged(feed, there, tables, wanted, errors)
    _report_unknown(wanted, tables, span, errors)
    tables = _shown(feed, tables, there, wanted, errors)
    new = {
        oid: each
        for oid, each in tables.items()
        if oid not in there and _is_wanted(each.relation, wanted) and (keep_dropped or each.dropped is None)
    }
    folders = _arranged(directory, span, there, tables, new)
    fingerprint_before = cache(feed.fingerprint_before)
    targets, with_error = [], {name for name, _ in errors.of_tables}
    for oid, each in tables.items():
        table = there.get(oid)
        if (table is None and oid not in new) or not _is_wanted(each.relation, wanted):
            continue
        if table.gone is not None if table is not None else folders[oid].name in with_error:
            continue  # what is wrong with what lies there is known
        with errors.of(_name(each.relation)):
            target = _target(each, table, folders[oid], span, style, fingerprint_before)
            if target is not None:
                targets.append(target)
    return sorted(targets, key=lambda target: (target.name, target.relation.oid)), errors


def _name(relation: Relation) -> str:
    return write_table_name(relation.schema, relation.name)


def _tables_in_lake(feed: Feed, directory: Path, errors: TableErrors) -> dict[int, _LakeTable]:
    """The tables of this database, by oid. Raises Overtaken if folders are being renamed meanwhile: a table that is not seen
    would be made anew."""
    by_oid: dict[int, _LakeTable] = {}
    logs, span, difference = {}, feed.span, cache(feed.difference)
    while new := [path for path in tables_in(directory) if path not in logs]:
        for path in new:
            logs[path] = log_of(path)
            with errors.of(path.name):
                table = find(path)
                position = position_of(table, span)
                if position is None:
                    continue
                if position.oid in by_oid:
                    raise UsageError(
                        f'"{path.name}" and "{by_oid[position.oid].path.name}" are the same table',
                        hint="Move the copy elsewhere.",
                    )
                name = write_table_name(position.schema, position.name)
                seen = history_error(span, difference, position, name) if position.dropped is None else None
                by_oid[position.oid] = _LakeTable(table.found, position, table.wrong_files(), seen)
    moved = [path.name for path, log in logs.items() if log is None or log_of(path) != log]
    if moved:
        raise Overtaken(f'another run has moved what was in folder "{moved[0]}"', hint=AGAIN)
    return by_oid


def _add_unchanged(
    feed: Feed, there: dict[int, _LakeTable], tables: dict[int, FeedTable], wanted: Names, errors: TableErrors
) -> None:
    """Add the tables of the lake that have no changes; an error for those that have seen a history that is gone."""
    for oid, table in there.items():
        if wanted is not None and table.named not in wanted:
            continue
        name, position = write_table_name(*table.named), table.position
        if table.gone is not None:
            errors.add(name, table.gone)
        elif oid not in tables and position.dropped is None and position.lsn < feed.span.stop:
            with errors.of(name):
                # Of a table that stayed behind and was dropped then, nothing is known any more.
                check_reaches(feed.span, position.lsn, name)
                found = feed.table(oid)
                if found is None:
                    raise MissingHistory(f"could not open relation with OID {oid}", context=f"folder {table.path}")
                tables[oid] = found


def _shown(
    feed: Feed, tables: dict[int, FeedTable], there: dict[int, _LakeTable], wanted: Names, errors: TableErrors
) -> dict[int, FeedTable]:
    """The same, what is wanted with the columns that come out of the feed; of a table whose changes do no longer, with those that
    it has. What is new and has no changes in the feed is left out."""
    if not feed.span.publications:
        mine = {oid: each for oid, each in tables.items() if wanted is not None or each.relation.kind == "r" or oid in there}
        return {oid: replace(each, relation=feed.shown(each.relation) or each.relation) for oid, each in mine.items()}
    shown = {}
    for oid, each in tables.items():
        if not _is_wanted(each.relation, wanted):
            shown[oid] = each
            continue
        with errors.of(_name(each.relation)):
            relation = feed.shown(each.relation)
            if relation is None and oid in there:
                relation = only_columns(each.relation, {number for number, _, _ in there[oid].position.columns})
            if relation is not None:
                shown[oid] = replace(each, relation=relation)
            elif wanted is not None:
                raise UsageError(f'relation "{_name(each.relation)}" is not part of the publication', sqlstate="42704")
    return shown


def _is_wanted(relation: Relation, wanted: Names) -> bool:
    if wanted is not None:
        return (relation.schema, relation.name) in wanted
    return is_followed(relation)


def is_followed(relation: Relation) -> bool:
    """Whether it is a table of a user's, or a partitioned one."""
    return relation.oid >= FIRST_NORMAL_OID and relation.kind in "rp"


def _report_unknown(wanted: Names, tables: dict[int, FeedTable], span: FeedSpan, errors: TableErrors) -> None:
    """Report names of tables that neither the feed nor the lake has."""
    there = {(each.relation.schema, each.relation.name) for each in tables.values()}
    for schema, name in sorted((wanted or set()) - there):
        text = write_table_name(schema, name)
        errors.add(text, UsageError(f'relation "{text}" does not exist', sqlstate="42P01", context=f"at {span.stop}"))


def _arranged(
    directory: Path, span: FeedSpan, there: dict[int, _LakeTable], tables: dict[int, FeedTable], new: dict[int, FeedTable]
) -> dict[int, Path]:
    """Folders for all, by oid, with those that lie there moved to theirs. What is ahead of the range stays where it is."""
    claims = []
    for oid, table in there.items():
        position, known = table.position, tables.get(oid)
        schema, name = (known.relation.schema, known.relation.name) if known else (position.schema, position.name)
        dropped = position.dropped or (known.dropped if known else None)
        claims.append(Claim(oid, schema, name, int(dropped or 0), table.path))
    claims += [Claim(oid, each.relation.schema, each.relation.name, int(each.dropped or 0)) for oid, each in new.items()]
    folders = folders_for(directory, claims)
    stays = {
        oid
        for oid, table in there.items()
        if table.gone is not None or (table.position.dropped or table.position.lsn) >= span.stop
    }
    moves = {oid: (table.path, table.path if oid in stays else folders[oid]) for oid, table in there.items()}
    try:
        return {**folders, **move(moves)}
    except FileNotFoundError as error:
        raise Overtaken(f'folder "{error.filename}" is gone', detail="Another run has moved it.", hint=AGAIN) from error


def _target(
    each: FeedTable,
    table: _LakeTable | None,
    folder: Path,
    span: FeedSpan,
    style: ArrowStyle,
    fingerprint_before: Callable[[Lsn], LogFingerprint | None],
) -> TargetTable | None:
    """A table to bring up, or None if it is where it is to be. Raises TailraceError if it cannot be."""
    make = partial(
        TargetTable, each.relation, each.dropped, fingerprint_before=fingerprint_before, rewrites=each.rewrites,
        truncations=each.truncations, comments=each.comments, commented=each.commented,
    )  # fmt: skip
    if table is not None:
        position, found = table.position, table.found.moved(folder)
        if table.wrong:
            found = found.open().put_right(_name(each.relation), table.wrong, position.unbounded)
        if position.dropped is not None:
            if each.dropped is None and position.dropped < span.stop:
                raise UsageError(
                    f"the oid of the table is that of one that was dropped at {position.dropped}",
                    hint=f'Move the folder "{folder.name}" out of the directory.', context=f"table {_name(each.relation)}",
                )  # fmt: skip
            return None
        if position.lsn >= span.stop:
            return None
        part = check_reaches(span, position.lsn, _name(each.relation))
        check_fit(each.relation, span)
        return make(style=kept_style(style, position), found=found, position=position, span=part)
    check_fit(each.relation, span)
    if is_filled(folder) and not is_begun(folder):
        _check_not_just_made(folder, span, _name(each.relation))
        raise UsageError(
            f'folder "{folder.name}" holds something else than the changes of this database since {span.start}',
            hint="Give another directory, or move the folder out of this one.", context=f"table {_name(each.relation)}",
        )  # fmt: skip
    return make(style=style, found=DeltaVersion(LocalStore(folder)), position=None, span=span)


def _check_not_just_made(folder: Path, span: FeedSpan, name: str) -> None:
    """Raise Overtaken if the table was not in this folder when this run has looked."""
    try:
        table = find(folder)
    except MissingHistory:
        return
    if position_of(table, span) is not None:
        raise Overtaken(f"table {name} has been made by another run since this one has begun", hint=AGAIN)


def kept_style(style: ArrowStyle, position: TablePosition) -> ArrowStyle:
    """What is text in a table stays text."""
    return replace(style, **{name: "text" for name in STYLES if position.style.get(name) == "text"})  # type: ignore[arg-type]


def check_fit(relation: Relation, span: FeedSpan) -> None:
    """Raise UsageError for what has no changes to follow; a partitioned table has, if its partitions are published as it."""
    if relation.kind == "p" and not span.publications:
        raise UsageError(
            f'"{_name(relation)}" is a partitioned table',
            hint="Its rows are in its partitions: name these, or no tables at all.", sqlstate="42809",
        )  # fmt: skip
    if relation.kind not in "rp":
        raise UsageError(f'"{_name(relation)}" is not a table', sqlstate="42809")
    if relation.persistence != "p":
        raise UsageError(
            f'the log has no changes of unlogged table "{_name(relation)}"',
            hint="ALTER TABLE … SET LOGGED",
            sqlstate="42809",
        )
    _check_columns(relation)


def _check_columns(relation: Relation) -> None:
    """Raise UsageError for columns that no table of a lake has."""
    names: dict[str, str] = {}
    for column in relation.live_columns:
        other = names.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UsageError(
                f"columns {quote_identifier(other)} and {quote_identifier(column.name)} are one to readers of a lake",
                hint="They do not tell capitals from small letters. ALTER TABLE … RENAME COLUMN, and go on.",
                context=f"table {_name(relation)}", sqlstate="42701",
            )  # fmt: skip
    if not names:
        hint, context = "Give it one, or have publications choose the tables.", f"table {_name(relation)}"
        raise UsageError("a table of a lake has at least one column", hint=hint, context=context, sqlstate="42P16")
