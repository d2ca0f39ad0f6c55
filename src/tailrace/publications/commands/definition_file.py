"""The file in which a state location keeps the publications of a database that are defined there: written and read.

In: stages, of which each says what one statement left of all publications, and from which LSN on. Out: bytes; and back, checked.
No stage is ever removed: a transaction is always published by the stage that held where it committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from tailrace.checksummed_file import FileKind
from tailrace.dataclass import dataclass
from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.publications.publication import Publication, PublicationActions, PublishedTable, RowFilter

DEFINITIONS_FILE = FileKind(
    "publish",
    "a file of publications",
    version=1,
    compression="zstd",
    hint="Create the publications again, in another state location.",
)


@dataclass(frozen=True, slots=True)
class DefinitionStage:
    """The publications after a `statement`; transactions that commit at `since` or later are published by them."""

    since: Lsn
    statement: str
    publications: tuple[Publication, ...]


@dataclass(frozen=True, slots=True)
class Definitions:
    """The stages of one database of one system, in the order of their LSNs, and of their statements where these are equal."""

    system: int
    database_oid: int
    database: str
    stages: tuple[DefinitionStage, ...] = field(default=())

    @property
    def current(self) -> tuple[Publication, ...]:
        return self.stages[-1].publications if self.stages else ()

    @property
    def in_order(self) -> tuple[tuple[int, tuple[Publication, ...]], ...]:
        """The publications by the LSN from which on they hold, as `timeline_of` takes them."""
        return tuple((stage.since, stage.publications) for stage in self.stages)

    def at(self, lsn: int) -> tuple[Publication, ...]:
        """The publications for a transaction that commits there."""
        return next((stage.publications for stage in reversed(self.stages) if stage.since <= lsn), ())

    def then(self, stage: DefinitionStage) -> Definitions:
        """The same with one stage more. Raises UsageError if it would hold before the last one."""
        if self.stages and stage.since < self.stages[-1].since:
            raise UsageError(
                f"publications of this database have changed at {self.stages[-1].since}, they cannot change at {stage.since}",
                hint="What a log was told with stays as it was.",
            )
        return replace(self, stages=(*self.stages, stage))


def write_definitions(definitions: Definitions) -> bytes:
    """The bytes of the file."""
    facts = asdict(definitions) | {"stages": [_stage_facts(stage) for stage in definitions.stages]}
    return DEFINITIONS_FILE.write(facts, {})


def read_definitions(data: bytes, where: str) -> Definitions:
    """Raises UnsupportedFile for files that are none of definitions, or of another format; CorruptFile for damaged ones."""
    return DEFINITIONS_FILE.read_as(data, where, {}, lambda facts, _: _definitions(facts))


def _stage_facts(stage: DefinitionStage) -> dict[str, Any]:
    return {
        "since": str(stage.since),
        "statement": stage.statement,
        "publications": [asdict(each) for each in stage.publications],
    }


def _definitions(facts: Mapping[str, Any]) -> Definitions:
    return Definitions(
        system=int(facts["system"]),
        database_oid=int(facts["database_oid"]),
        database=str(facts["database"]),
        stages=tuple(_stage(stage) for stage in facts["stages"]),
    )


def _stage(facts: Mapping[str, Any]) -> DefinitionStage:
    publications: Sequence[Mapping[str, Any]] = facts["publications"]
    return DefinitionStage(Lsn.parse(facts["since"]), str(facts["statement"]), tuple(_publication(each) for each in publications))


def _publication(facts: Mapping[str, Any]) -> Publication:
    return Publication(
        **{
            **facts,
            "actions": PublicationActions(**facts["actions"]),
            "tables": tuple(_table(table) for table in facts["tables"]),
            "schemas": tuple(facts["schemas"]),
        }
    )


def _table(facts: Mapping[str, Any]) -> PublishedTable:
    where = facts["filter"]
    return PublishedTable(
        oid=int(facts["oid"]),
        columns=None if facts["columns"] is None else tuple(facts["columns"]),
        filter=RowFilter(**{**where, **{name: _numbered(where.get(name, ())) for name in ("names", "generated")}})
        if where
        else None,
    )


def _numbered(pairs: Sequence[Sequence[Any]]) -> tuple[tuple[int, str], ...]:
    return tuple((int(number), str(text)) for number, text in pairs)
