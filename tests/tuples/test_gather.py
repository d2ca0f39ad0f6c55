"""Values put together from where they lie: in line, compressed, in TOAST chunks, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from tailrace.errors import CorruptWal
from tailrace.tuples.deform import Attributes
from tailrace.tuples.errors import CorruptTuple
from tailrace.tuples.gather import column_of
from tailrace.tuples.toast import Chunks
from tailrace.tuples.varlena import EXTERNAL, LZ4, MISSING, NULL, PGLZ, PLAIN

HELLO_BY_LZ4 = bytes([5 << 4]) + b"hello"
HELLO_BY_PGLZ = bytes([0]) + b"hello"
VALUE = 16400


class Bytes:
    """Bytes that grow, and where each part of them begins."""

    def __init__(self) -> None:
        self.data = b"?"

    def add(self, part: bytes) -> int:
        self.data += part
        return len(self.data) - len(part)

    def place(self, part: bytes) -> tuple[int, int]:
        """The same, and how long the part is."""
        return self.add(part), len(part)

    @property
    def buf(self) -> np.ndarray:
        return np.frombuffer(self.data, np.uint8).copy()


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _chunk(value: int, sequence: int, data: bytes, *, short: bool) -> bytes:
    header = bytes([(len(data) + 1) << 1 | 1]) if short else _word((len(data) + 4) << 2)
    return b"\3\0\0\0\x18" + bytes(1) + _word(value) + _word(sequence) + header + data


def _external(raw: int, stored: int, method: int = 0) -> bytes:
    return _word(raw + 4) + _word(method << 30 | stored) + _word(VALUE) + _word(1)


def _attribute(*places: tuple[int, int, int]) -> Attributes:
    at, size, form = zip(*places, strict=True)
    return Attributes(np.array(at), np.array(size, np.int32), np.array(form, np.uint8))


def _turns(*turns: int) -> np.ndarray:
    return np.array(turns, np.int64)


def test_values_in_line() -> None:
    memory = Bytes()
    places = [
        (memory.add(b"plain"), 5, PLAIN),
        (0, 0, NULL),
        (memory.add(_word(5) + HELLO_BY_PGLZ) + 4, len(HELLO_BY_PGLZ), PGLZ),
        (0, 0, MISSING),
        (memory.add(_word(1 << 30 | 5) + HELLO_BY_LZ4) + 4, len(HELLO_BY_LZ4), LZ4),
    ]
    turn = np.zeros(len(places), np.int64)
    values = column_of(memory.buf, _attribute(*places), -1, b"as it was", turn, Chunks.none())
    assert values.payload_list() == [b"plain", b"", b"hello", b"as it was", b"hello"]
    assert values.valid.tolist() == [True, False, True, True, True]
    assert values.unchanged is None
    without = column_of(memory.buf, _attribute(*places), -1, None, turn, Chunks.none())
    assert without.valid.tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_fixed_widths(width: int) -> None:
    memory = Bytes()
    one, other = bytes(range(1, width + 1)), bytes(range(101, width + 101))
    attribute = _attribute((memory.add(one), width, PLAIN), (0, 0, NULL), (0, 0, MISSING))
    values = column_of(memory.buf, attribute, width, other, _turns(0, 0, 0), Chunks.none())
    assert values.payload_list() == [one, bytes(width), other]
    assert values.valid.tolist() == [True, False, True]


def test_a_chunk_serves_the_rows_of_its_turn() -> None:
    """Turn 0 sent the value in two chunks, turn 1 compressed in one; turn 2 did not send it."""
    memory = Bytes()
    compressed = _word(5) + HELLO_BY_LZ4  # tcinfo stands in the chunk as well
    tuples = [
        (*memory.place(_chunk(VALUE, 0, b"first ", short=True)), 0),
        (*memory.place(_chunk(VALUE, 0, compressed, short=False)), 1),
        (*memory.place(_chunk(VALUE, 1, b"second", short=False)), 0),
    ]
    places = [
        (memory.add(_external(12, 12)), 16, EXTERNAL),
        (memory.add(_external(5, len(compressed), 1)), 16, EXTERNAL),
        (memory.add(_external(12, 12)), 16, EXTERNAL),
    ]
    buf = memory.buf
    chunks = Chunks.of(buf, *(np.array(column) for column in zip(*tuples, strict=True)))
    values = column_of(buf, _attribute(*places), -1, None, _turns(0, 1, 2), chunks)
    assert values.payload_list() == [b"first second", b"hello", b""]
    assert values.valid.tolist() == [True, True, False]
    assert values.unchanged is not None
    assert values.unchanged.tolist() == [False, False, True]


def _chunks(buf: np.ndarray, *places: tuple[int, int]) -> Chunks:
    return Chunks.of(buf, *(np.array(column) for column in zip(*places, strict=True)), _turns(*(0 for _ in places)))


def test_chunks_that_do_not_add_up() -> None:
    memory = Bytes()
    chunk, other = (memory.place(_chunk(VALUE, number, b"abc", short=True)) for number in (0, 2))
    place = memory.add(_external(7, 7))
    buf = memory.buf
    with pytest.raises(CorruptTuple, match="missing or extra chunks of a TOAST value"):
        column_of(buf, _attribute((place, 16, EXTERNAL)), -1, None, _turns(0), _chunks(buf, chunk))
    with pytest.raises(CorruptTuple, match="got a TOAST chunk out of sequence") as caught:
        _chunks(buf, chunk, other)
    assert caught.value.row == 1


def _with(chunk: bytes, at: int, byte: int) -> bytes:
    return chunk[:at] + bytes([byte]) + chunk[at + 1 :]


SHORT, LONG = (_chunk(VALUE, 0, b"abc", short=short) for short in (True, False))
DATA_AT = len(SHORT) - len(b"abc") - 1


@pytest.mark.parametrize(
    "damaged",
    {
        "cut off": SHORT[:-1],
        "no data": SHORT[:DATA_AT],
        "header alone": SHORT[:4],
        "nothing": b"",
        "data begin before it": _with(SHORT, 4, 0),
        "data begin behind it": _with(SHORT, 4, 255),
        "longer than it is, short": _with(SHORT, DATA_AT, 255),
        "longer than it is, long": _with(LONG, DATA_AT + 3, 0x3F),
        "compressed": _with(LONG, DATA_AT, LONG[DATA_AT] | 2),
        "elsewhere": _with(SHORT, DATA_AT, 1),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_tuple_that_is_no_chunk(damaged: tuple[str, bytes]) -> None:
    memory = Bytes()
    sound, bad = memory.place(_chunk(VALUE - 1, 0, b"abc", short=True)), memory.place(damaged[1])
    with pytest.raises(CorruptTuple, match="found a TOAST chunk that is none") as caught:
        _chunks(memory.buf, sound, bad)
    assert caught.value.row == 1


@pytest.mark.parametrize("raw", [-4, -1, 2, 3 * 255 + 1, 2**30])
def test_a_value_in_chunks_of_a_size_that_it_cannot_have(raw: int) -> None:
    """Its size before compression is below that of its chunks, or more than they can hold."""
    memory = Bytes()
    chunk = memory.place(_chunk(VALUE, 0, b"abc", short=True))
    place = memory.add(_external(raw, 3))
    buf = memory.buf
    with pytest.raises(CorruptTuple, match="compressed data is corrupt"):
        column_of(buf, _attribute((place, 16, EXTERNAL)), -1, None, _turns(0), _chunks(buf, chunk))


@pytest.mark.parametrize("form", [PGLZ, LZ4])
def test_a_compressed_value_of_a_size_that_it_cannot_have(form: int) -> None:
    """A thousand rows that say so of themselves would be a terabyte."""
    memory = Bytes()
    places = [(memory.add(_word(2**30 - 1) + HELLO_BY_LZ4) + 4, len(HELLO_BY_LZ4), form) for _ in range(1000)]
    with pytest.raises(CorruptTuple, match="compressed data is corrupt"):
        column_of(memory.buf, _attribute(*places), -1, None, _turns(*range(1000)), Chunks.none())


@pytest.mark.parametrize("length", [1, 4, 12])
def test_a_missing_value_of_another_length(length: int) -> None:
    with pytest.raises(CorruptTuple, match=f"is {length + 1} bytes long, and its column {length}"):
        column_of(Bytes().buf, _attribute((0, 0, MISSING)), length, bytes(length + 1), _turns(0), Chunks.none())


@pytest.mark.parametrize(("form", "stream"), [(PGLZ, HELLO_BY_PGLZ), (LZ4, HELLO_BY_LZ4)])
def test_damaged_streams(form: int, stream: bytes) -> None:
    memory = Bytes()
    place = (memory.add(_word(6) + stream) + 4, len(stream), form)
    with pytest.raises(CorruptWal, match="compressed data is corrupt"):
        column_of(memory.buf, _attribute(place), -1, None, _turns(0), Chunks.none())
