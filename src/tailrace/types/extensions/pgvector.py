"""pgvector's types: vector, halfvec, sparsevec.

vector and halfvec (`vector.h`, `halfvec.h`) are i16 dimensions, i16 unused, then float4s or half-width floats. sparsevec
(`sparsevec.h`) is i32 dimensions, i32 how many are not zero, i32 unused, their i32 indices from 0, and their float4s. Numbers are
printed as float4 prints them, always the shortest that reads back; all rows' as one column. In Arrow the first two are lists of float.
"""

from __future__ import annotations

import re
import struct

import numpy as np
import pyarrow as pa

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.binary_forms import swap_bytes
from tailrace.types.codec import ArrowStyle, format_each, mask_buffer, parse_each, receive_each, string_array, syntax_error
from tailrace.types.numbers.floats.text import format_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

FLOAT4 = PgType(700, "pg_catalog", "float4", "real", "b", 4, 4)
NUMBERS = {"vector": "<f4", "halfvec": "<f2"}
HEAD = 4
SPARSE_HEAD = 12


def format_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As vector_out and halfvec_out: [1,2,3]."""
    counts, numbers = _flat(values, NUMBERS[pg_type.name])
    words, at, texts = _words(numbers), 0, []
    for count, there in zip(counts.tolist(), values.valid.tolist(), strict=True):
        texts.append(f"[{','.join(words[at : at + count])}]" if there else "")
        at += count
    return Texts.of(texts)


def _flat(values: Values, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """How many numbers each row has, and all of them."""
    starts, data = values.payloads
    width = np.dtype(dtype).itemsize
    sizes = np.where(values.valid, np.diff(starts), 0)
    keep = np.repeat(values.valid, np.diff(starts))
    heads = (starts[:-1][values.valid][:, None] + np.arange(HEAD)).reshape(-1)
    keep[heads - starts[0]] = False
    body = data[starts[0] : starts[-1]][keep]
    return np.where(values.valid, (sizes - HEAD) // width, 0), np.ascontiguousarray(body).view(dtype).astype(np.float32)


def _words(numbers: np.ndarray) -> list[str]:
    column = Values(np.ones(len(numbers), np.bool_), fixed=numbers.view(np.uint8).reshape(-1, 4))
    return format_floats(column, FLOAT4, TextStyle()).to_list()


def parse_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As vector_in and halfvec_in."""
    dtype = NUMBERS[pg_type.name]

    def parse_one(text: str) -> bytes:
        numbers = _numbers(re.fullmatch(r"\s*\[([^\[\]]+)\]\s*", text), pg_type, text)
        return struct.pack("<hh", len(numbers), 0) + np.array(numbers, dtype).tobytes()

    return parse_each(texts, valid, pg_type, parse_one)


def _numbers(found: re.Match[str] | None, pg_type: PgType, text: str) -> list[float]:
    try:
        return [float(word) for word in found[1].split(",")] if found else _fail(pg_type, text)
    except ValueError:
        return _fail(pg_type, text)


def _fail(pg_type: PgType, text: str) -> list[float]:
    raise syntax_error(pg_type.name, text)


def send_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The same numbers, big-endian."""
    return format_each(values, lambda payload: _swapped(payload, NUMBERS[pg_type.name]))


def receive_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return receive_each(texts, valid, pg_type, lambda sent: _swapped(sent, NUMBERS[pg_type.name]))


def _swapped(raw: bytes, dtype: str) -> bytes:
    return swap_bytes(raw[:HEAD], 2) + swap_bytes(raw[HEAD:], np.dtype(dtype).itemsize)


def arrow_vectors(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """list of float, or string."""
    return pa.string() if style.arrays == "text" else pa.list_(pa.float32())


def vectors_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    if style.arrays == "text":
        return string_array(format_vectors(values, pg_type, style.text), values.valid)
    counts, numbers = _flat(values, NUMBERS[pg_type.name])
    if len(numbers) > np.iinfo(np.int32).max:
        raise UsageError("a batch holds more than 2^31 elements of one column", hint="Ask for smaller batches.")
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    buffers = [mask_buffer(values.valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(pa.float32()), len(values), buffers, children=[pa.array(numbers)])


def format_sparse(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As sparsevec_out: {1:1.5,3:2}/5, indices from 1."""

    def text_of(payload: bytes) -> str:
        size, count = struct.unpack_from("<ii", payload)
        places = struct.unpack_from(f"<{count}i", payload, SPARSE_HEAD)
        words = _words(np.frombuffer(payload, "<f4", count, SPARSE_HEAD + 4 * count))
        return "{" + ",".join(f"{place + 1}:{word}" for place, word in zip(places, words, strict=True)) + f"}}/{size}"

    return format_each(values, text_of)


def parse_sparse(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As sparsevec_in."""

    def parse_one(text: str) -> bytes:
        found = re.fullmatch(r"\s*\{([^{}]*)\}/(\d+)\s*", text)
        pairs = [word.partition(":") for word in found[1].split(",") if word] if found else []
        try:
            held = sorted((int(place) - 1, float(number)) for place, _, number in pairs if float(number))
        except ValueError:
            raise syntax_error(pg_type.name, text) from None
        if found is None:
            raise syntax_error(pg_type.name, text)
        places, numbers = [place for place, _ in held], [number for _, number in held]
        return struct.pack(f"<iii{len(held)}i{len(held)}f", int(found[2]), len(held), 0, *places, *numbers)

    return parse_each(texts, valid, pg_type, parse_one)


def send_sparse(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """All words, big-endian: every number in it is 4 bytes wide."""
    return format_each(values, lambda payload: swap_bytes(payload, 4))


def receive_sparse(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return receive_each(texts, valid, pg_type, lambda sent: swap_bytes(sent, 4))
