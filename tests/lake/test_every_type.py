"""Tables of a lake with a column of every type, in both formats: our reader gives what the source prints, and all others what ours gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from support import delta_readers, iceberg_readers
from support.every_type import comparable, fill, printed
from support.servers import Server
from tailrace.lake.formats import FORMATS
from tailrace.lake.lake import Lake
from tailrace.lake.reading import rows_of
from tailrace.model import Lsn, PgType
from tailrace.pipeline import open_pipeline
from tailrace.storage.local_store import LocalStore
from tailrace.types.codec.arrow_to_text import texts_of
from tailrace.types.style import TextStyle

pytestmark = [pytest.mark.postgres, pytest.mark.soak]
READ_WHOLE = {"delta": delta_readers.read_whole, "iceberg": iceberg_readers.read_whole}


class Filled:
    """A server with such tables."""

    def __init__(self, server: Server) -> None:
        self.server, self.start = server, Lsn.parse(server.flush_lsn())
        self.tables: Mapping[str, Sequence[tuple[str, PgType]]] = fill(server)

    def lake(self, folder: Path, format: str) -> Mapping[str, pa.Table]:
        """Made of them there; the rows of each table, by its folder."""
        lake = Lake.open(LocalStore(folder), format=format)
        lake.apply(open_pipeline(self.server.data_dir, "postgres", start_lsn=self.start))
        assert lake.catalog is not None
        found = {each.folder: lake.opened(each) for each in lake.catalog.tables.values() if each.name in self.tables}
        assert len(found) == len(self.tables)
        return {name: pa.Table.from_batches(rows_of(each), each.open().schema).sort_by("id") for name, each in found.items()}


@pytest.fixture(scope="module")
def filled() -> Iterator[Filled]:
    with Server(18, test_decoding=False) as server:
        yield Filled(server)


@pytest.mark.parametrize("format", FORMATS)
def test_as_the_source_prints_them(filled: Filled, tmp_path: Path, format: str) -> None:
    values = 0
    for folder, rows in filled.lake(tmp_path / "lake", format).items():
        name = folder.removeprefix("public.")
        types, theirs = dict(filled.tables[name]), list(zip(*printed(filled.server, name), strict=True))
        for column, expected in zip(rows.schema.names, theirs, strict=True):
            assert texts_of(rows[column].combine_chunks(), TextStyle(), types.get(column)) == list(expected), (name, column)
            values += len(expected) - expected.count(None)
    assert values > 1200


@pytest.mark.marathon
@pytest.mark.parametrize("format", FORMATS)
def test_others_read_them(filled: Filled, tmp_path: Path, format: str) -> None:
    ours = {name: comparable(rows) for name, rows in filled.lake(tmp_path / "lake", format).items()}
    (tmp_path / "read").mkdir()
    said = READ_WHOLE[format](list(ours), tmp_path / "lake", tmp_path / "read")
    assert [each for each in said if each[2]] == []
    assert {(reader, name) for reader, name, _ in said} == {
        (each, name) for each in ("Spark", "DuckDB", "polars", "library") for name in ours
    }
    for reader, name, _ in said:
        with pa.memory_map(str(tmp_path / f"read/{reader}-{name}.arrow")) as file:
            theirs = comparable(pa.ipc.open_file(file).read_all())
        assert theirs == ours[name], (reader, name)
