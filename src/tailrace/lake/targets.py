"""Which tables a run is about, where they lie, and how far they are.

In: a feed, a directory, and the names asked for. Out: `Target`s to bring up, and what is wrong with other tables, by name. A table of the lake is
the relation with its oid, whatever either is called; folders follow names (`lake/folders.py`), and have their new ones before anything is written.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError

from tailrace.catalog.dropped_and_retyped import last_seen, retypes
from tailrace.catalog.history import History
from tailrace.catalog.names.qualified_names import read_table_name, write_table_name
from tailrace.catalog.names.quoting import quote_identifier
from tailrace.errors import MissingHistory, Overtaken, PeerError, TailraceError, UsageError
from tailrace.feed import Feed, Span
from tailrace.lake.folders import Claim, folders_for, is_filled, move
from tailrace.lake.found import AGAIN, Found, find, is_begun, log_of, tables_in
from tailrace.lake.gone_history import gone
from tailrace.lake.position import STYLES, Position, check_reaches, position_of
from tailrace.lake.statistics import files_that_are_wrong, put_right
from tailrace.model import FIRST_NORMAL_OID, Lsn, Relation
from tailrace.publications.subscription import only_columns
from tailrace.types.registry import ArrowStyle
from tailrace.wal.stood import Stood


@dataclass(frozen=True, slots=True)
class Seen:
    """A relation as it was at the end of a range, or when it was last seen; `dropped` is the commit that dropped it."""

    relation: Relation
    dropped: Lsn | None

    @property
    def name(self) -> str:
        return write_table_name(self.relation.schema, self.relation.name)


@dataclass(frozen=True, slots=True)
class Target:
    """A table to bring to the end of `span`. `found` and `position` are what is there already: what is written goes on from that version."""

    relation: Relation
    dropped: Lsn | None
    style: ArrowStyle
    path: Path
    found: Found
    position: Position | None
    span: Span
    stood_before: Callable[[Lsn], Stood | None]

    @property
    def name(self) -> str:
        return write_table_name(self.relation.schema, self.relation.name)


class TroubleWarning(UserWarning):
    """A table could not be brought up; others were."""


@dataclass(slots=True)
class Troubles:
    """What is wrong with which tables, by name (or the folder's, where that is all there is). Trouble with one keeps no other from going on."""

    of_tables: list[tuple[str, TailraceError]]
    history: History

    @contextmanager
    def of(self, name: str, relation: Relation | None = None) -> Iterator[None]:
        """What is raised inside is this table's trouble."""
        try:
            yield
        except TailraceError as error:
            self.add(name, error, relation)
        except (DeltaError, pa.ArrowException, OSError, ValueError) as error:
            self.add(name, PeerError("could not read or write the Delta table", context=f"table {name}: {error}"))
        except Exception as error:
            if type(error) is not Exception:  # as delta-rs raises what has no class of its own
                raise
            self.add(name, PeerError("could not read or write the Delta table", context=f"table {name}: {error}"))

    def warn(self) -> None:
        """Say it to those who do not look at what is returned."""
        for name, error in self.of_tables:
            warnings.warn(f"table {name} stays where it is: {error}", TroubleWarning, stacklevel=3)

    def add(self, name: str, error: TailraceError, relation: Relation | None = None) -> None:
        """Trouble whose cause is a new type of a column says where that came."""
        changed = retypes(self.history, relation.oid) if relation is not None and error.sqlstate == "42804" else []
        if changed:
            column, lsn = changed[-1]
            error.hint = f"Column {column} was given another type at {lsn}. {error.hint}"
        self.of_tables.append((name, error))


@dataclass(frozen=True, slots=True)
class _Lying:
    """A table of ours that is in the lake."""

    found: Found
    position: Position
    wrong: list[str]
    """Files whose statistics are."""
    gone: TailraceError | None
    """What it has seen of a history that is gone: it is not to be touched."""

    @property
    def path(self) -> Path:
        return self.found.path


def find_targets(
    feed: Feed, directory: Path, names: Sequence[str] | None, style: ArrowStyle, *, keep_dropped: bool
) -> tuple[list[Target], Troubles]:
    """The tables to bring up, in the order of their names: those that changed (or are `names`), and those in the lake, whose positions move on even
    if nothing happened to them. Without `keep_dropped`, none is begun that is dropped already. Raises UsageError for what is no name."""
    history, span = feed.history, feed.span
    troubles = Troubles([], history)
    lying = _lying(feed, directory, troubles)
    seen = _seen(feed, names)
    wanted = {read_table_name(name) for name in names} if names is not None else None
    for oid, lie in lying.items():
        if lie.gone is not None and (wanted is None or (lie.position.schema, lie.position.name) in wanted):
            troubles.add(write_table_name(lie.position.schema, lie.position.name), lie.gone)
        elif oid not in seen and lie.position.dropped is None and lie.position.lsn < span.stop:
            name = (lie.position.schema, lie.position.name)
            if wanted is None or name in wanted:
                with troubles.of(write_table_name(*name)):
                    # Of a table that stayed behind and was dropped then, nothing is known any more.
                    check_reaches(span, lie.position.lsn, write_table_name(*name))
                    seen[oid] = _last_seen(history, oid, (), span, lie.path)
    _note_strangers(wanted, seen, span, troubles)
    seen = _shown(feed, seen, lying, wanted, troubles)
    new = {
        oid: each
        for oid, each in seen.items()
        if oid not in lying and _is_wanted(each.relation, wanted) and (keep_dropped or each.dropped is None)
    }
    folders = _arranged(directory, span, lying, seen, new)
    stood_before = cache(feed.stood_before)
    targets, in_trouble = [], {name for name, _ in troubles.of_tables}
    for oid, each in seen.items():
        table = lying.get(oid)
        if (table is None and oid not in new) or not _is_wanted(each.relation, wanted):
            continue
        if table.gone is not None if table is not None else folders[oid].name in in_trouble:
            continue  # it has been told what is wrong with what lies there
        with troubles.of(each.name):
            target = _target(each, table, folders[oid], span, style, stood_before)
            if target is not None:
                targets.append(target)
    return sorted(targets, key=lambda target: (target.name, target.relation.oid)), troubles


def _lying(feed: Feed, directory: Path, troubles: Troubles) -> dict[int, _Lying]:
    """The tables of this database, by oid. Raises Overtaken if folders are being renamed meanwhile: a table that is not seen would be made anew."""
    by_oid: dict[int, _Lying] = {}
    logs, span, difference = {}, feed.span, cache(feed.difference)
    while new := [path for path in tables_in(directory) if path not in logs]:
        for path in new:
            logs[path] = log_of(path)
            with troubles.of(path.name):
                table, handle = find(path)
                position = position_of(handle, span)
                if position is None:
                    continue
                if position.oid in by_oid:
                    raise UsageError(
                        f'"{path.name}" and "{by_oid[position.oid].path.name}" are the same table',
                        hint="Move the copy elsewhere.",
                    )
                name = write_table_name(position.schema, position.name)
                seen = gone(span, difference, position, name) if position.dropped is None else None
                by_oid[position.oid] = _Lying(table, position, files_that_are_wrong(handle), seen)
    moved = [path.name for path, log in logs.items() if log is None or log_of(path) != log]
    if moved:
        raise Overtaken(f'another run has moved what was in folder "{moved[0]}"', hint=AGAIN)
    return by_oid


def _seen(feed: Feed, names: Sequence[str] | None) -> dict[int, Seen]:
    """By oid, each table that may have changed, and those named, as they were last."""
    history, span = feed.history, feed.span
    met: dict[int, list[Relation]] = {}
    truncated = (relation for each in feed.truncations for relation in each.truncation.relations)
    for relation in [*feed.relations, *truncated]:
        if not relation.rewrite_of:
            met.setdefault(relation.oid, []).append(relation)
    for schema, name in map(read_table_name, names or ()):
        named = history.relation_named(schema, name, int(span.stop))
        if named is not None:
            met.setdefault(named.oid, []).append(named)
    return {oid: _last_seen(history, oid, versions, span) for oid, versions in met.items()}


def _last_seen(history: History, oid: int, versions: Sequence[Relation], span: Span, path: Path | None = None) -> Seen:
    """The relation at the end of the range, or before it was dropped, with whatever columns a transaction saw that changed it and dropped it. A
    column that was once added with a default keeps it here (`Column.missing`), even if a rewrite has made the catalog forget it."""
    relation, dropped = history.relation_by_oid(oid, int(span.stop)), None
    if relation is None:
        last, dropped = last_seen(history, oid) or (None, span.stop)
        relation = max([last, *versions] if last else versions, key=lambda version: len(version.columns), default=None)
    if relation is None:
        raise MissingHistory(f"could not open relation with OID {oid}", context=f"folder {path}")
    # Of the same type only: a default of another is stored otherwise, and the rows that had it were written anew with the new type.
    defaults = {
        (column.number, column.type): column.missing
        for version in versions for column in version.columns if column.missing is not None
    }  # fmt: skip
    columns = tuple(
        replace(column, missing=column.missing or defaults.get((column.number, column.type))) for column in relation.columns
    )
    return Seen(replace(relation, columns=columns), dropped)


def _shown(
    feed: Feed, seen: dict[int, Seen], lying: dict[int, _Lying], wanted: set[tuple[str, str]] | None, troubles: Troubles
) -> dict[int, Seen]:
    """The same, what is wanted with the columns that come out of the feed; of a table whose changes do no longer, with those that it has. What is new
    and has no changes in the feed is not there."""
    if not feed.span.publications:
        return {oid: each for oid, each in seen.items() if wanted is not None or each.relation.kind == "r" or oid in lying}
    shown = {}
    for oid, each in seen.items():
        if not _is_wanted(each.relation, wanted):
            shown[oid] = each
            continue
        with troubles.of(each.name):
            relation = feed.shown(each.relation)
            if relation is None and oid in lying:
                relation = only_columns(each.relation, {number for number, _, _ in lying[oid].position.columns})
            if relation is not None:
                shown[oid] = replace(each, relation=relation)
            elif wanted is not None:
                raise UsageError(f'relation "{each.name}" is not part of the publication', sqlstate="42704")
    return shown


def _is_wanted(relation: Relation, wanted: set[tuple[str, str]] | None) -> bool:
    if wanted is not None:
        return (relation.schema, relation.name) in wanted
    return relation.oid >= FIRST_NORMAL_OID and relation.kind in "rp"


def _note_strangers(wanted: set[tuple[str, str]] | None, seen: dict[int, Seen], span: Span, troubles: Troubles) -> None:
    """Names that nothing answers to."""
    there = {(each.relation.schema, each.relation.name) for each in seen.values()}
    for schema, name in sorted((wanted or set()) - there):
        text = write_table_name(schema, name)
        troubles.add(text, UsageError(f'relation "{text}" does not exist', sqlstate="42P01", context=f"at {span.stop}"))


def _arranged(
    directory: Path, span: Span, lying: dict[int, _Lying], seen: dict[int, Seen], new: dict[int, Seen]
) -> dict[int, Path]:
    """Folders for all, by oid, with those that lie there moved to theirs. What is ahead of the range stays where it is."""
    claims = []
    for oid, table in lying.items():
        position, known = table.position, seen.get(oid)
        schema, name = (known.relation.schema, known.relation.name) if known else (position.schema, position.name)
        dropped = position.dropped or (known.dropped if known else None)
        claims.append(Claim(oid, schema, name, int(dropped or 0), table.path))
    claims += [Claim(oid, each.relation.schema, each.relation.name, int(each.dropped or 0)) for oid, each in new.items()]
    folders = folders_for(directory, claims)
    stays = {
        oid
        for oid, table in lying.items()
        if table.gone is not None or (table.position.dropped or table.position.lsn) >= span.stop
    }
    moves = {oid: (table.path, table.path if oid in stays else folders[oid]) for oid, table in lying.items()}
    try:
        return {**folders, **move(moves)}
    except FileNotFoundError as error:
        raise Overtaken(f'folder "{error.filename}" is gone', detail="Another run has moved it.", hint=AGAIN) from error


def _target(
    each: Seen, table: _Lying | None, folder: Path, span: Span, style: ArrowStyle, stood_before: Callable[[Lsn], Stood | None]
) -> Target | None:
    """A table to bring up, or None if it is where it is to be. Raises TailraceError if it cannot be."""
    relation = each.relation
    if table is not None:
        position, found = table.position, table.found.moved(folder)
        if table.wrong:
            found = put_right(found, each.name, table.wrong, position.unbounded)
        if position.dropped is not None:
            if each.dropped is None and position.dropped < span.stop:
                raise UsageError(
                    f"the oid of the table is that of one that was dropped at {position.dropped}",
                    hint=f'Move the folder "{folder.name}" out of the directory.', context=f"table {each.name}",
                )  # fmt: skip
            return None
        if position.lsn >= span.stop:
            return None
        part = check_reaches(span, position.lsn, each.name)
        _check_fit(each, span)
        return Target(relation, each.dropped, _kept(style, position), folder, found, position, part, stood_before)
    _check_fit(each, span)
    if is_filled(folder) and not is_begun(folder):
        _check_not_just_made(folder, span, each.name)
        raise UsageError(
            f'folder "{folder.name}" holds something else than the changes of this database since {span.start}',
            hint="Give another directory, or move the folder out of this one.", context=f"table {each.name}",
        )  # fmt: skip
    return Target(relation, each.dropped, style, folder, Found(folder), None, span, stood_before)


def _check_not_just_made(folder: Path, span: Span, name: str) -> None:
    """Raise Overtaken if the table was not in this folder when this run has looked."""
    try:
        _, table = find(folder)
    except DeltaError:
        return
    if position_of(table, span) is not None:
        raise Overtaken(f"table {name} has been made by another run since this one has begun", hint=AGAIN)


def withdraw_doubles(directory: Path, made: Sequence[Target], span: Span, troubles: Troubles, away: Path) -> set[Path]:
    """For runs that nothing keeps apart: take back what was `made` by this one where another has made the same table at the same time, in a folder of
    another name: it goes to `away`. Each of both may, and then none is there, and running again makes one."""
    folders: dict[int, set[Path]] = {}
    for path in tables_in(directory):
        with suppress(DeltaError, OSError, TailraceError):  # taken back by who saw ours; or it was told of when the run began
            position = position_of(find(path)[1], span)
            if position is not None:
                folders.setdefault(position.oid, set()).add(path)
    withdrawn = set()
    for target in made:
        if len(folders.get(target.relation.oid, ())) > 1 and target.path in folders[target.relation.oid]:
            target.path.rename(away / target.path.name)
            withdrawn.add(target.path)
            troubles.add(
                target.name, Overtaken(f"table {target.name} has been made by another run, in another folder", hint=AGAIN)
            )
    return withdrawn


def _kept(style: ArrowStyle, position: Position) -> ArrowStyle:
    """What is text in a table stays text."""
    return replace(style, **{name: "text" for name in STYLES if position.style.get(name) == "text"})  # type: ignore[arg-type]


def _check_fit(each: Seen, span: Span) -> None:
    """Raise UsageError for what has no changes to follow; a partitioned table has, if its partitions are published as it."""
    relation = each.relation
    if relation.kind == "p" and not span.publications:
        raise UsageError(
            f'"{each.name}" is a partitioned table', hint="Its rows are in its partitions: name these, or no tables at all.",
            sqlstate="42809",
        )  # fmt: skip
    if relation.kind not in "rp":
        raise UsageError(f'"{each.name}" is not a table', sqlstate="42809")
    if relation.persistence != "p":
        raise UsageError(
            f'the log has no changes of unlogged table "{each.name}"', hint="ALTER TABLE … SET LOGGED", sqlstate="42809"
        )
    _check_columns(each)


def _check_columns(each: Seen) -> None:
    """Raise UsageError for columns that no Delta table has."""
    names: dict[str, str] = {}
    for column in each.relation.live_columns:
        other = names.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UsageError(
                f"columns {quote_identifier(other)} and {quote_identifier(column.name)} are one to Delta",
                hint="It does not tell capitals from small letters. ALTER TABLE … RENAME COLUMN, and go on.",
                context=f"table {each.name}", sqlstate="42701",
            )  # fmt: skip
    if not names:
        raise UsageError("a Delta table has at least one column", context=f"table {each.name}", sqlstate="42P16")
