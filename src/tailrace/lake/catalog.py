"""The catalog of a lake: which tables it has, where they lie, and up to which LSN all of them are complete. One object, `_tailrace/catalog`.

A run reads it, brings tables up, each in a commit of its own, and replaces it last, by compare-and-swap: what it says may lag behind tables, and
never leads. So a table that nothing happened to costs nothing, and a run that was killed in between leaves tables that say themselves how far
they are. Of two runs one replaces the catalog, and the other is told.

A table's folder has the name that the table had when it was made, and its oid where another has that name, and keeps it: no store renames.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tailrace.catalog.names.qualified_names import write_table_name
from tailrace.checksummed_file import FileKind, fact
from tailrace.dataclass import dataclass
from tailrace.errors import MissingHistory, Overtaken, UsageError
from tailrace.feed import FeedSpan
from tailrace.lake.folders import folder_name
from tailrace.model import Lsn, Relation
from tailrace.storage.store import ObjectChanged, Store
from tailrace.transactions.seen_transactions import SeenTransactions
from tailrace.wal.log_fingerprint import LogFingerprint

CATALOG = "_tailrace/catalog"
CATALOG_FILE = FileKind(
    "lake",
    "the catalog of a lake",
    version=1,
    compression="zstd",
    hint="Put the object back, or make the lake anew in another place.",
)
_ALWAYS = 7
"""Facts that each table has; those behind are left out from where on there are none."""
_AGAIN = "Run this again: it goes on from where the lake is."


@dataclass(frozen=True, slots=True)
class HeldTable:
    """Why a table does not go on, and since when: all its changes from there on are in quarantine (`lake/trouble.py`). `definition` is what the table
    is at the source by now (`quarantine/definitions.py`)."""

    since: Lsn
    message: str
    sqlstate: str
    definition: str

    def facts(self) -> list[str]:
        return [str(self.since), self.message, self.sqlstate, self.definition]

    @classmethod
    def of(cls, facts: list[Any]) -> HeldTable:
        since, message, sqlstate, definition = facts
        return cls(Lsn.parse(since), fact(message, str), fact(sqlstate, str), fact(definition, str))


@dataclass(frozen=True, slots=True)
class LakeTable:
    """`folder` is relative to the lake; `version` that of the table's last commit of ours (-1: it is not made yet), at `changed`; `dropped` where the
    source dropped it. One that is `held` does not go on. One that was `copied` has what that snapshot has seen, which is said until the lake is past
    it."""

    oid: int
    folder: str
    schema: str
    name: str
    version: int = -1
    changed: Lsn = Lsn(0)
    dropped: Lsn | None = None
    held: HeldTable | None = None
    copied: SeenTransactions | None = None

    def named_as(self, relation: Relation) -> LakeTable:
        """The same where the source has given it another name."""
        return replace(self, schema=relation.schema, name=relation.name)


def no_table_any_more(table: LakeTable) -> MissingHistory:
    """The error where the table was made, and is not there."""
    return MissingHistory(
        f'folder "{table.folder}" of the lake has no table any more', hint="Put back what was there.", sqlstate="55000"
    )


def something_else(table: LakeTable) -> UsageError:
    """The error where another table lies there."""
    return UsageError(
        f'folder "{table.folder}" of the lake holds something else than the catalog says', hint="Put back what was there.", sqlstate="55000"
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LakeCatalog:
    """All tables have the changes of transactions that commit before `complete` in the database of one system, of which the last commits at
    `committed` (microseconds since 2000; 0: not known). `fingerprint` is of what stands in the log before that."""

    system: int
    timeline: int
    database: int
    publications: tuple[str, ...]
    complete: Lsn
    committed: int = 0
    fingerprint: LogFingerprint | None = None
    tables: Mapping[int, LakeTable] = field(default_factory=dict)
    layout: str = "mirror"
    """What its tables hold (`lake/layouts/`)."""
    format: str = "delta"
    """Of its tables (`lake/formats.py`)."""
    awaits_copy: bool = False
    """Whether it begins with a copy of its tables that is not complete yet: a table is there once it is `copied`."""
    joining: tuple[int, ...] = ()
    """Tables, by oid, whose rows are to be copied although the lake has begun: they get no changes before that. One that is there already holds what
    it held before; if it says that it was `copied`, its next version is that copy (`lake/table_copy.py`)."""
    catching_up: tuple[int, ...] = ()
    """Tables, by oid, that were copied while the others went on: they have what commits before `caught_up`, and get no other changes before they have
    what commits before `complete`."""
    caught_up: Lsn = Lsn(0)

    @classmethod
    def begun(cls, span: FeedSpan, layout: str = "mirror", format: str = "delta") -> LakeCatalog:
        """Of a lake without tables, which has nothing of before the span."""
        publications = tuple(sorted(span.publications))
        return cls(span.system, span.timeline, span.database, publications, span.start, layout=layout, format=format)

    def begun_anew(self, at: Lsn, fingerprint: LogFingerprint | None) -> LakeCatalog:
        """Of one that awaits its copy, once its slot is elsewhere: what was copied before does not count."""
        tables = {oid: replace(table, version=-1, copied=None) for oid, table in self.tables.items()}
        return replace(self, complete=at, fingerprint=fingerprint, tables=tables, joining=(), catching_up=())

    def all_copied_again(self, timeline: int, at: Lsn, fingerprint: LogFingerprint | None) -> LakeCatalog:
        """Once all tables wait for a copy, and the lake begins where its slot is. What a table has stays until it is replaced."""
        tables = {oid: replace(table, copied=None) for oid, table in self.tables.items()}
        there = tuple(oid for oid, table in tables.items() if table.version >= 0 and table.dropped is None)
        return replace(
            self, timeline=timeline, complete=at, fingerprint=fingerprint, tables=tables, awaits_copy=True, joining=there, catching_up=()
        )  # fmt: skip

    def check_layout(self, layout: str, format: str, where: str) -> None:
        """Raise UsageError where the lake has another layout, or its tables another format."""
        if self.format != format:
            raise UsageError(
                f'lake "{where}" has tables of format {self.format}, not {format}',
                hint="Give each format a lake of its own.",
                sqlstate="55000",
            )
        if self.layout != layout:
            raise UsageError(
                f'lake "{where}" has layout {self.layout}, not {layout}',
                hint="Give each layout a lake of its own.",
                sqlstate="55000",
            )

    def check_is_of(self, span: FeedSpan, where: str) -> None:
        """Raise UsageError where the lake is another database's, or of other publications, or follows a later timeline."""
        if (self.system, self.database) != (span.system, span.database):
            raise UsageError(
                f'lake "{where}" is of database {self.database} of system {self.system}, and the log is of database {span.database} of {span.system}',
                hint="Give each database a lake of its own.", sqlstate="55000",
            )  # fmt: skip
        if set(self.publications) != set(span.publications):
            raise UsageError(
                f'lake "{where}" has {_in_words(self.publications)}, and is to get {_in_words(span.publications)}',
                hint="Give each choice of publications a lake of its own.", sqlstate="55000",
            )  # fmt: skip
        if self.timeline > span.timeline:
            raise UsageError(
                f'lake "{where}" follows timeline {self.timeline}, and the log is of timeline {span.timeline}',
                hint="Give the log of the server that was promoted.", sqlstate="55000",
            )  # fmt: skip

    def folder_for(self, relation: Relation) -> str:
        """For a table that is not there yet."""
        taken = {table.folder for table in self.tables.values()}
        plain = folder_name(relation.schema, relation.name, relation.oid)
        return folder_name(relation.schema, relation.name, relation.oid, second=True) if plain in taken else plain

    @property
    def awaits_tables(self) -> bool:
        """Whether any is still to be copied from the source, or to catch up: until then readers are told nothing of what is complete."""
        return self.awaits_copy or bool(self.joining or self.catching_up)

    @property
    def awaited(self) -> str:
        """In words, which tables are."""
        return "its tables" if self.awaits_copy else self.names_of((*self.joining, *self.catching_up))

    def names_of(self, oids: Sequence[int]) -> str:
        """Of tables, by oid where the lake does not have them yet."""
        tables = [(oid, self.tables.get(oid)) for oid in oids]
        return ", ".join(f"table {oid}" if table is None else write_table_name(table.schema, table.name) for oid, table in tables)

    def is_at_hand(self, oid: int) -> bool:
        """Whether a table gets changes: one that is to be copied will have them by the copy, and one that catches up has others first."""
        if oid in self.joining or oid in self.catching_up:
            return False
        return not self.awaits_copy or (oid in self.tables and self.tables[oid].copied is not None)

    def is_to_be_refilled(self, oid: int) -> bool:
        """Whether a table that is to be copied is there, with what it held before."""
        return oid in self.joining and oid in self.tables and self.tables[oid].version >= 0

    def with_table(self, table: LakeTable) -> LakeCatalog:
        return replace(self, tables={**self.tables, table.oid: table})

    def joined_by(self, oids: Sequence[int]) -> LakeCatalog:
        """Once these are to be copied. What is copied already of those that were not waiting does not count."""
        new = [oid for oid in oids if oid not in self.joining]
        tables = {oid: replace(table, copied=None) if oid in new else table for oid, table in self.tables.items()}
        catching_up = tuple(oid for oid in self.catching_up if oid not in new)
        return replace(self, joining=(*self.joining, *new), catching_up=catching_up, tables=tables)

    def without_joining(self, oid: int) -> LakeCatalog:
        """Once nobody waits for it any more."""
        return replace(self, joining=tuple(each for each in self.joining if each != oid))

    def copied_at(self, oid: int, lsn: Lsn) -> LakeCatalog:
        """Once a table that joins is copied, with what commits before `lsn`."""
        if oid not in self.joining:
            return self
        return replace(self.without_joining(oid), catching_up=(*self.catching_up, oid), caught_up=lsn)

    def is_for_those_behind(self, stop: Lsn) -> bool:
        """Whether a window that ends there has changes for tables that catch up, and for no others."""
        return bool(self.catching_up) and stop <= self.complete

    def of_those_behind(self) -> LakeCatalog:
        """The part of the catalog that catches up, as that of a lake of its own."""
        tables = {oid: self.tables[oid] for oid in self.catching_up}
        return replace(self, complete=self.caught_up, tables=tables, joining=(), catching_up=())

    def with_those_behind(self, behind: LakeCatalog) -> LakeCatalog:
        """Once that part is where it says. What has reached the others goes on with them."""
        is_there = behind.complete >= self.complete
        return replace(
            self,
            tables={**self.tables, **behind.tables},
            catching_up=() if is_there else self.catching_up,
            caught_up=behind.complete,
        )

    def past_copies(self) -> LakeCatalog:
        """Once it is past all that a table's copy has seen, nobody needs to know any more what that was. While some are awaited it says which are
        not."""
        if self.awaits_copy:
            return self
        over = {
            oid: replace(each, copied=None)
            for oid, each in self.tables.items()
            if each.copied and each.copied.end <= self.complete and self.is_at_hand(oid)
        }
        return replace(self, tables={**self.tables, **over})

    def with_dropped(self, dropped: Mapping[int, Lsn]) -> LakeCatalog:
        """Once these are said to be, as far as they are there. One that was not made yet is forgotten."""
        catalog = self
        for oid in dropped.keys() & self.tables.keys():
            known = self.tables[oid]
            catalog = (
                catalog.without_table(oid) if known.version < 0 else catalog.with_table(replace(known, dropped=dropped[oid]))
            )
        return catalog

    def without_table(self, oid: int) -> LakeCatalog:
        """Of one that was not made after all."""
        return replace(self, tables={each: table for each, table in self.tables.items() if each != oid})


def _in_words(publications: tuple[str, ...]) -> str:
    return f"what {', '.join(sorted(publications))} publish" if publications else "all changes"


@dataclass(frozen=True, slots=True)
class StoredCatalog:
    """The catalog as it was read, with the tag by which it is replaced; None and no tag where there is none yet."""

    catalog: LakeCatalog | None = None
    tag: str = ""

    @classmethod
    def read(cls, store: Store) -> StoredCatalog:
        """Raises CorruptFile and UnsupportedFile."""
        try:
            data, tag = store.read_tagged(CATALOG)
        except FileNotFoundError:
            return cls()
        return cls(read_catalog(data, f"{store.url}/{CATALOG}"), tag)

    def check_is_newest(self, store: Store) -> None:
        """Raises Overtaken where it is another by now."""
        if StoredCatalog.read(store).tag != self.tag:
            raise _overtaken(store)

    def replaced(self, store: Store, catalog: LakeCatalog) -> StoredCatalog:
        """Raises Overtaken where it is another by now."""
        data = write_catalog(catalog)
        try:
            tag = store.put_over(CATALOG, data, self.tag) if self.tag else store.put_new(CATALOG, data)
        except (ObjectChanged, FileExistsError) as error:
            raise _overtaken(store) from error
        return StoredCatalog(catalog, tag)


def _overtaken(store: Store) -> Overtaken:
    return Overtaken(f'another run has written to lake "{store.url}"', hint=_AGAIN)


def write_catalog(catalog: LakeCatalog) -> bytes:
    """The bytes of the object."""
    facts = {
        "written": uuid.uuid4().hex,  # no two are equal: a store knows an object by a checksum of its bytes
        "system": str(catalog.system), "timeline": catalog.timeline, "database": catalog.database, "publications": list(catalog.publications),
        "layout": catalog.layout, "format": catalog.format, "awaits_copy": catalog.awaits_copy, "joining": list(catalog.joining),
        "catching_up": list(catalog.catching_up), "caught_up": str(catalog.caught_up),
        "complete": str(catalog.complete), "committed": catalog.committed,
        "stood": catalog.fingerprint.facts() if catalog.fingerprint else None,
        "tables": list(map(_facts_of, catalog.tables.values())),
    }  # fmt: skip
    return CATALOG_FILE.write(facts, {})


def read_catalog(data: bytes, where: str) -> LakeCatalog:
    """Raises CorruptFile and UnsupportedFile; `where` names the object."""
    return CATALOG_FILE.read_as(data, where, {}, _catalog_from)


def _facts_of(table: LakeTable) -> list[Any]:
    facts = [
        table.oid, table.folder, table.schema, table.name, table.version, str(table.changed),
        str(table.dropped) if table.dropped is not None else None, table.held.facts() if table.held is not None else None,
        table.copied.facts() if table.copied is not None else None,
    ]  # fmt: skip
    while facts[_ALWAYS:] and facts[-1] is None:
        facts.pop()
    return facts


def _table_from(facts: list[Any], copied: SeenTransactions | None) -> LakeTable:
    """What all tables were `copied` under, as it was said once, is said of the table if nothing is."""
    oid, folder, schema, name, version, changed, dropped, held, own = facts + [None] * (_ALWAYS + 2 - len(facts))
    return LakeTable(
        fact(oid, int), fact(folder, str), fact(schema, str), fact(name, str), fact(version, int), Lsn.parse(changed),
        Lsn.parse(dropped) if dropped is not None else None, HeldTable.of(held) if held is not None else None,
        SeenTransactions.of(own) or copied,
    )  # fmt: skip


def _catalog_from(facts: dict[str, Any], _: object) -> LakeCatalog:
    copied = SeenTransactions.of(facts.get("copied"))
    tables = [_table_from(fact(each, list), copied) for each in fact(facts["tables"], list)]
    return LakeCatalog(
        int(facts["system"]), fact(facts["timeline"], int), fact(facts["database"], int), tuple(facts["publications"]),
        Lsn.parse(facts["complete"]), fact(facts["committed"], int), LogFingerprint.of(facts["stood"]), {each.oid: each for each in tables},
        fact(facts.get("layout", "mirror"), str), fact(facts.get("format", "delta"), str), fact(facts.get("awaits_copy", False), bool),
        tuple(fact(each, int) for each in fact(facts.get("joining", []), list)),
        tuple(fact(each, int) for each in fact(facts.get("catching_up", []), list)), Lsn.parse(facts.get("caught_up", "0/0")),
    )  # fmt: skip


def no_lake(url: str) -> UsageError:
    return UsageError(
        f'there is no lake at "{url}"',
        hint="tailrace replicate makes it of a server, tailrace mirror of files, too.",
        sqlstate="42704",
    )
