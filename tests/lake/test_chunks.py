"""Changes come in chunks that memory can hold: all of them, each once, and in the order of commits from chunk to chunk."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tailrace.lake.chunks import chunks_of
from tailrace.lake.staging import FileWritten


@pytest.mark.parametrize("seed", range(30))
def test_chunks(seed: int) -> None:
    dice = random.Random(seed)
    tables: dict[str, pa.Table] = {}
    files, lsn = [], 0
    commits = [dice.randrange(1, 20)]
    for number in range(dice.randrange(1, 12)):
        rows = []
        for _ in range(dice.randrange(1, 200)):
            lsn += dice.randrange(2)  # rows of one record have its LSN
            if dice.random() < 0.05:
                commits.append(max(commits) + dice.randrange(1, 50))
            rows.append((dice.choice(commits[-3:]), lsn, len(rows)))
        name = str(number)
        tables[name] = pa.table(dict(zip(("commit_lsn", "lsn", "n"), map(list, zip(*rows, strict=True)), strict=True)))
        last = max(row[0] for row in rows)
        files.append(FileWritten(1, name, 0, len(rows) * 100, len(rows), min(row[0] for row in rows), last, rows[0][1]))
    most = dice.choice((500, 5_000, 1_000_000))
    chunks = list(chunks_of(files, most, lambda file, columns: tables[file.path].select(columns or ["commit_lsn", "lsn", "n"])))
    seen, before = [], (0, 0)
    for chunk in chunks:
        rows = chunk.rows(lambda file, columns: tables[file.path])
        assert rows is not None or len(chunks) > 1
        if rows is None:
            continue
        places = sorted(zip(rows["commit_lsn"].to_pylist(), rows["lsn"].to_pylist(), strict=True))
        assert before < places[0] or not seen
        before = places[-1]
        seen += places
        if len(set(places)) > 40:  # a chunk of many records could have been cut
            assert len(places) * 100 < 4 * most + 5_000
    assert sorted(seen) == sorted(
        place
        for table in tables.values()
        for place in zip(table["commit_lsn"].to_pylist(), table["lsn"].to_pylist(), strict=True)
    )
