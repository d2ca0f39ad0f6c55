"""`spark.read.format("tailrace")`: the committed changes of one table as a typed DataFrame.

In: options `source`, `database`, `table` (schema.name), and, if wanted, `catalog`, `startLsn`, `endLsn`, `columns`, and the settings of
ArrowStyle. Out: one row per change, with the columns of `tailrace.changes` or those that `columns` names (Spark does not tell a Python
source what a query leaves out); a partition per stretch. Scan and plan happen once, where Spark plans the read (from threads: no job can be
started there); the plan travels with the source, and only decoding goes wide. Order is in the columns (commit_lsn, lsn, sequence), not in
the rows.

Never implements pushFilters: Spark 4.1 to 4.3 caches a filtered plan and answers later queries from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tailrace.catalog.statefile import read_state
from tailrace.changes import COLUMNS, change_batch, change_schema
from tailrace.decode import decode
from tailrace.errors import UsageError
from tailrace.lake.pieces import Piece, pieces_of
from tailrace.model import Lsn
from tailrace.plan.demand import OF_TABLES
from tailrace.river import River, Source, open_river
from tailrace.spark.followed import Followed
from tailrace.spark.parcels import pack, unpack
from tailrace.spark.schemas import spark_schema
from tailrace.spark.workers import settle
from tailrace.storage.index_store import IndexStore
from tailrace.storage.segments import Segments
from tailrace.types.registry import ArrowStyle
from tailrace.types.style import PARAMETERS, TextStyle

OPTIONS = {
    "source": "data directory, base backup, pg_wal, or directory of archived segments; or what is given to `load`",
    "database": "the table's database",
    "table": "schema.name, as in SQL and as it is called at the end of the range; it is followed through renames and rewrites; "
    "a partitioned table has the changes of its leaves",
    "catalog": "file of a captured catalog state",
    "index": "directory where indexes are kept, and used again, so that WAL is scanned once",
    "startlsn": "transactions that commit here or later",
    "endlsn": "and before here",
    "columns": f"which columns a row has, of {', '.join(COLUMNS)}; each that is left out is time saved",
    "numeric": "decimal, where the column's precision fits, or text",
    "arrays": "list, or text, which keeps bounds and any number of dimensions",
    "times": "native, or text, which keeps infinities and years before Christ",
    "unknowntypes": "error, or hex, for values whose type is not known",
    **dict.fromkeys(PARAMETERS, "as PostgreSQL's parameter, for what becomes text"),
}
"""What may be asked; Spark gives the names in lower case."""
_ROWS = 32_768
PLANNED_SECONDS = 3600
"""How long the copy of a running server's WAL that a plan was made from is kept for its tasks."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns a row of the DataFrame has, and how values become Arrow."""

    columns: tuple[str, ...]
    style: ArrowStyle

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Shape:
        text = options.get("columns")
        names = tuple(name.strip() for name in text.split(",")) if text else COLUMNS
        for name in names:
            if name not in COLUMNS or names.count(name) > 1:
                raise UsageError(
                    f'column "{name}" does not exist or is named twice', hint=f"Columns: {', '.join(COLUMNS)}.", sqlstate="42703"
                )
        chosen = {name: options[name] for name in ("numeric", "arrays", "times") if name in options}
        parameters = {name: options[name] for name in PARAMETERS if name in options}
        text_style = TextStyle(unknown_types=options.get("unknowntypes", "error")).under(parameters)
        return cls(names, ArrowStyle(**chosen, text=text_style))


class _Parcel(InputPartition):
    """A piece on its way."""

    def __init__(self, piece: Piece) -> None:
        self._packed = pack(piece)

    def piece(self) -> Piece:
        found: Piece = unpack(self._packed)
        return found


class TailraceReader(DataSourceReader):
    """Decodes the stretches of one plan."""

    def __init__(self, segments: Segments, pieces: list[InputPartition], table: Followed, shape: Shape) -> None:
        self._segments = segments
        self._pieces = pieces
        self._table = table
        self._shape = shape

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pieces": []}

    def partitions(self) -> list[InputPartition]:
        return self._pieces

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _Parcel):
            return  # Spark's own, of no content, where there are no stretches
        piece = partition.piece()
        for batch in decode(piece.plan, self._segments.read, self._table.oids):
            found = self._table.changes_in(batch)
            if found is None:
                continue
            of_table, mine = found
            changes = change_batch(
                replace(of_table, ordinal=np.searchsorted(piece.ordinals, batch.ordinal)),
                piece.facts,
                self._table.relation,
                columns=self._shape.columns,
                style=replace(self._shape.style, text=replace(self._shape.style.text, names=batch.names)),
                codec=piece.plan.codec,
            )
            if not mine.all():
                changes = changes.filter(pa.array(mine))
            for start in range(0, len(changes), _ROWS):
                yield changes.slice(start, _ROWS)
        settle()


class TailraceSource(DataSource):
    """Found by Spark under its name through `pyspark_tailrace`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._planned: tuple[Segments, list[InputPartition], Followed, Shape] | None = None

    @classmethod
    def name(cls) -> str:
        settle()  # in the process that looks for sources, and in those that ask one for its schema and reader
        return "tailrace"

    def schema(self) -> StructType:
        settle()
        _, _, table, shape = self._plan()
        return spark_schema(change_schema(table.relation, shape.columns, shape.style))

    def reader(self, schema: StructType) -> DataSourceReader:
        settle()
        # Spark sends source and reader along with every task: neither must hold the stretches of all.
        planned, self._planned = self._plan(), None
        return TailraceReader(*planned)

    def _plan(self) -> tuple[Segments, list[InputPartition], Followed, Shape]:
        if self._planned is None:
            options = _checked({name.lower(): value for name, value in self.options.items()})
            for name in ("source", "database", "table"):
                if not options.get(name):
                    raise UsageError(f'option "{name}" missing')
            shape = Shape.of(options)
            river = _open(options, shape.style.text.schemas)
            table = Followed.named(river, options["table"])
            pieces: list[InputPartition] = [_Parcel(piece) for piece in pieces_of(river.plan, table.oids)]
            self._planned = river.source.segments, pieces, table, shape
        return self._planned


def _checked(options: dict[str, str]) -> dict[str, str]:
    """The options, each one known, with what `load(path)` gives as the source. Raises UsageError for others."""
    path = options.pop("path", None)
    if path is not None:
        if options.get("source", path) != path:
            raise UsageError(
                "conflicting or redundant options", hint="Give the source once: as the path, or as an option.", sqlstate="42601"
            )
        options["source"] = path
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f'unrecognized option "{name}"', hint=f"Options: {', '.join(OPTIONS)}.")
    return options


def _open(options: Mapping[str, str], search_path: tuple[str, ...]) -> River:
    path, index = options.get("catalog"), options.get("index")
    catalog = read_state(Path(path).read_bytes(), path) if path else None
    # Spark plans in a process of its own, which ends before the tasks begin.
    source = Source.open(options["source"], catalog.needs_wal_from if catalog else None, lasting=PLANNED_SECONDS)
    return open_river(
        source, options["database"], catalog=catalog, start_lsn=_lsn(options.get("startlsn")), upto_lsn=_lsn(options.get("endlsn")),
        index_store=IndexStore(Path(index).absolute()) if index else None, demand=replace(OF_TABLES, search_path=search_path),
    )  # fmt: skip


def _lsn(text: str | None) -> Lsn | None:
    if not text:
        return None
    try:
        return Lsn.parse(text)
    except ValueError as error:
        raise UsageError(str(error), sqlstate="22P02") from None
