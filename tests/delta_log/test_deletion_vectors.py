"""Deletion vectors as bytes and text: both directions, known examples, and bytes that are damaged."""

from __future__ import annotations

import random
import struct
import uuid

import numpy as np
import pytest
from pyroaring import BitMap64

from tailrace.delta_log.deletion_vector import (
    DeletionVector,
    check_file_version,
    inline_vector,
    kept_rows,
    read_bitmap,
    union,
    write_bitmap,
    write_vectors,
)
from tailrace.delta_log.z85 import format_z85, parse_z85
from tailrace.errors import CorruptFile, UnsupportedFile

NAME = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
RANDOM = np.random.default_rng(20261126)
SETS = {
    "none": [],
    "one": [0],
    "the last of a block": [65535, 65536],
    "dense": range(3, 70_000),
    "every other": range(0, 200_000, 2),
    "sparse": np.sort(RANDOM.choice(1 << 30, 5000, replace=False)),
    "more than 4096 of a block": np.sort(RANDOM.choice(1 << 16, 9000, replace=False)),
    "beyond 32 bits": [7, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**40, 2**62],
}


def positions_of(values: object) -> np.ndarray:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", SETS)
def test_positions_come_back(name: str) -> None:
    positions = positions_of(SETS[name])
    assert np.array_equal(read_bitmap(write_bitmap(positions), len(positions)), positions)
    inline = inline_vector(positions)
    assert inline.file_name is None
    assert np.array_equal(DeletionVector.of_json(inline.as_json()).positions(), positions)


def test_a_file_has_vectors_behind_each_other() -> None:
    sets = [positions_of(values) for values in SETS.values()]
    name, data, vectors = write_vectors(sets, NAME, "_dv")
    assert name == f"_dv/deletion_vector_{NAME}.bin"
    check_file_version(data[:1], name)
    for positions, vector in zip(sets, vectors, strict=True):
        assert vector.file_name == name
        start, length = vector.place
        assert np.array_equal(vector.positions(data[start : start + length]), positions)
    assert len({vector.unique_id for vector in vectors}) == len(sets)


def test_the_examples_of_the_protocol() -> None:
    """Its example of a path, and the rows of its example of an inline vector, whose bytes there are of a format that it does not describe."""
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    assert vector.file_name == f"ab/deletion_vector_{NAME}.bin"
    assert vector.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert write_vectors([], NAME, "ab")[0] == vector.file_name
    with pytest.raises(CorruptFile, match="invalid deletion vector"):
        DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6).positions()


def test_containers_that_others_write() -> None:
    """Array, bitmap and run containers, by hand (RoaringFormatSpec): `run` of 3..9 and 20..20, with and without offsets."""
    header = struct.pack("<IQI", 1681511377, 1, 0)
    array = struct.pack("<II HH I HHH", 12346, 1, 0, 2, 16, 1, 5, 7)
    run = struct.pack("<HH B HH H HHHH", 12347, 0, 1, 0, 7, 2, 3, 6, 20, 0)
    bits = np.zeros(65536, np.uint8)
    bits[::13] = 1
    bitmap = struct.pack("<II HH I", 12346, 1, 0, int(bits.sum()) - 1, 16) + np.packbits(bits, bitorder="little").tobytes()
    for container, expected in ((array, [1, 5, 7]), (run, [*range(3, 10), 20]), (bitmap, range(0, 65536, 13))):
        positions = positions_of(expected)
        assert np.array_equal(read_bitmap(header + container, len(positions)), positions)


def test_what_is_drawn_comes_back_as_from_a_set() -> None:
    for seed in range(60):
        random.seed(seed)
        width = random.choice([10, 1000, 1 << 17, 1 << 34])
        first, second = (
            positions_of(sorted({random.randrange(width) for _ in range(random.choice([0, 1, 50, 3000]))})) for _ in range(2)
        )
        both = union(first, second)
        assert set(both.tolist()) == set(first.tolist()) | set(second.tolist()), seed
        assert np.array_equal(read_bitmap(write_bitmap(both), len(both)), both), seed
        start = random.randrange(width)
        kept = kept_rows(start, 2000, both)
        assert (np.flatnonzero(~kept) + start).tolist() == [each for each in both.tolist() if start <= each < start + 2000], seed


@pytest.mark.parametrize("positions", [[1, 5, 7, 100_000], list(range(40, 90)), [3, 2**33 + 1]])
def test_every_bit_of_a_file_that_is_wrong_is_found(positions: list[int]) -> None:
    wanted = positions_of(positions)
    _, data, (vector,) = write_vectors([wanted], NAME)
    start, length = vector.place
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        version, stored = bytes(damaged[:1]), bytes(damaged[start : start + length])
        if version == data[:1]:
            with pytest.raises(CorruptFile):
                vector.positions(stored)
        else:
            with pytest.raises(UnsupportedFile):
                check_file_version(version, "file")
    for end in range(len(data)):
        with pytest.raises(CorruptFile):
            vector.positions(data[start:end])


def test_damage_that_the_checksum_does_not_see_ends_in_other_positions_or_one_error() -> None:
    """The bitmap itself, as it stands in the log, where nothing is summed."""
    data = write_bitmap(positions_of([1, 5, 7, 100_000, 2**33, 2**33 + 9]))
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = read_bitmap(bytes(damaged), 6)
        except CorruptFile:
            continue
        assert len(found) == 6
        assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("more", [-40, -4, -1, 1, 4, 1 << 31])
def test_an_inline_vector_has_the_size_that_it_says(more: int) -> None:
    vector = inline_vector(positions_of([1, 5, 100_000, 2**33]))
    wrong = DeletionVector("i", vector.path_or_inline, vector.size_in_bytes + more, 4)
    with pytest.raises(CorruptFile, match="invalid deletion vector"):
        wrong.positions()


def test_few_bytes_do_not_become_many_positions() -> None:
    """Runs of a few bytes may be 65536 positions each; what the log says decides whether room is made for them."""
    bitmap = BitMap64()
    bitmap.add_range(0, 1 << 28)
    bitmap.run_optimize()
    data = struct.pack("<I", 1681511377) + bitmap.serialize()
    assert len(data) < 100_000
    with pytest.raises(CorruptFile, match="invalid deletion vector") as caught:
        read_bitmap(data, 5)
    assert caught.value.detail == "It has 268435456 positions, and should have 5."


@pytest.mark.parametrize(
    ("vector", "error"),
    [
        (DeletionVector("p", "s3://other/deletion_vector.bin", 40, 6, 1), UnsupportedFile),
        (DeletionVector("u", "short", 40, 6, 1), CorruptFile),
        (DeletionVector("u", "~" * 20, 40, 6, 1), CorruptFile),
    ],
)
def test_files_that_are_none_of_the_table(vector: DeletionVector, error: type[Exception]) -> None:
    with pytest.raises(error):
        assert vector.file_name


def test_z85() -> None:
    assert format_z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"  # the example of its specification
    assert parse_z85("HelloWorld") == bytes.fromhex("864FD26FB559F75B")
    for wrong in ("Hello Worl", "Hell", "#####", "HelloWorl~", "Hellö"):
        with pytest.raises(ValueError):  # noqa: PT011  # of several sorts
            parse_z85(wrong)
