"""Which files may have which keys: as every key compared with every file's bounds says, and from statistics that are read once."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailrace.delta_log import file_bounds as module
from tailrace.delta_log.actions import DataFile
from tailrace.delta_log.file_bounds import FileBounds, file_bounds
from tailrace.delta_log.file_statistics import EXACT
from tailrace.lake.files.known_bounds import KeysInFiles, KnownBounds

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda: random.randrange(-50, 50)),
    "float": (pa.float64(), lambda: random.choice([-0.0, 0.0, 1.5, -2.25, float("nan"), float("inf"), random.random()])),
    "text": (pa.string(), lambda: random.choice(["", "a", "é", "\uffff", "\U00010000", "zz"]) + random.choice("abc")),
    "decimal": (pa.decimal128(30, 4), lambda: Decimal(random.randrange(-(10**9), 10**9)) / 10000),
    "date": (pa.date32(), lambda: random.randrange(-1000, 1000)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda: random.randrange(-(2**50), 2**50)),
    "bytes": (pa.binary(), lambda: random.randbytes(2)),
}


@pytest.mark.parametrize("kind", VALUES)
def test_keys_that_a_file_may_have(kind: str) -> None:
    of_type, draw = VALUES[kind]
    for seed in range(40):
        random.seed(seed)
        keys = pa.array(
            [draw() if random.random() > 0.05 * (seed % 2) else None for _ in range(random.randrange(1, 40))], of_type
        )
        ends = [pa.array([draw(), draw()], of_type) for _ in range(random.randrange(0, 30))]
        bounds = [(None if random.random() < 0.2 else low, None if random.random() < 0.2 else high) for low, high in ends]
        sides = [pa.array([None if pair[side] is None else pair[side].as_py() for pair in bounds], of_type) for side in (0, 1)]
        if kind == "float":  # statistics of floats never say NaN
            sides = [
                pa.array([None if value is not None and math.isnan(value) else value for value in each.to_pylist()], of_type)
                for each in sides
            ]
        found = KeysInFiles.of(FileBounds(*sides), keys)
        for place, (low, high) in enumerate(zip(*(each.to_pylist() for each in sides), strict=True)):
            expected = [
                at for at, key in enumerate(keys.to_pylist())
                if key is None or ((low is None or key >= low) and (high is None or key <= high))
            ]  # fmt: skip
            got = found.keys_of(place).tolist()
            if kind == "float":  # NaN is behind all, so it is looked for where there is no greatest
                got = [at for at in got if at in expected or keys[at].as_py() == keys[at].as_py()]
                expected = [at for at in expected if keys[at].as_py() == keys[at].as_py() or at in got]
            assert got == expected, (kind, seed, low, high)
            assert not expected or place in found.files


def _file(number: int, low: int, high: int) -> DataFile:
    said = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    return DataFile(f"part-{number}.parquet", 1000, 0, json.dumps(said), tags=EXACT)


def test_what_was_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come, go, and are said something else of; bounds are those that are read anew."""
    schema, known, read = pa.schema([("id", pa.int64())]), KnownBounds(), []
    real = module._statistics

    def watched(text: str) -> Any:
        read.append(text)
        return real(text)

    random.seed(1)
    files = [_file(number, number, number + 5) for number in range(500)]
    for step in range(30):
        gone = set(random.sample(range(len(files)), 20))
        files = [each for place, each in enumerate(files) if place not in gone]
        files += [_file(1000 * step + 600 + number, step, step + number) for number in range(25)]
        place = random.randrange(len(files))
        files[place] = _file(int(files[place].path[5:-8]), -step, 0)
        random.shuffle(files)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_statistics", watched)
            read.clear()
            found = known.of(files, schema, ["id"])["id"]
        expected = file_bounds(files, schema, ["id"])["id"]
        assert found.lower.equals(expected.lower)
        assert found.upper.equals(expected.upper)
        assert len(read) <= (600 if step == 0 else 26)
    assert known.of([], schema, ["id"])["id"].lower.equals(pa.array([], pa.int64()))
    assert np.array_equal(known.of(files[:1], schema, ["id"])["id"].lower, expected.lower[:1])
