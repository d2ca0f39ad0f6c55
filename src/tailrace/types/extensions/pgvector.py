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
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, format_each, mask_buffer, parse_each, receive_each, string_array, syntax_error
from tailrace.types.codec.binary_forms import swap_bytes
from tailrace.types.numbers.floats import print_floats
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

NUMBERS = {"vector": "<f4", "halfvec": "<f2"}
HEAD, SPARSE_HEAD = 4, 12
"""Bytes before the numbers."""


def format_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As vector_out and halfvec_out: [1,2,3]."""
    counts, numbers = _flat(values, NUMBERS[pg_type.name])
    words, at, texts = _words(numbers), 0, []
    for count, there in zip(counts.tolist(), values.valid.tolist(), strict=True):
        texts.append(f"[{','.join(words[at : at + count])}]" if there else "")
        at += count
    return Texts.of(texts)


def _flat(values: Values, dtype: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """How many numbers each row has, and all of them."""
    starts, data = values.payloads
    width = np.dtype(dtype).itemsize
    sizes = np.where(values.valid, np.diff(starts), 0)
    keep = np.repeat(values.valid, np.diff(starts))
    heads = (starts[:-1][values.valid][:, None] + np.arange(HEAD)).reshape(-1)
    keep[heads - starts[0]] = False
    body = data[starts[0] : starts[-1]][keep]
    return np.where(values.valid, (sizes - HEAD) // width, 0), np.ascontiguousarray(body).view(dtype).astype(np.float32)


def _words(numbers: NDArray[np.float32]) -> list[str]:
    """The text of each number."""
    return print_floats(numbers, np.ones(len(numbers), np.bool_), TextStyle()).to_list()


def parse_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As vector_in and halfvec_in."""
    dtype = NUMBERS[pg_type.name]

    def parse_one(text: str) -> bytes:
        vector = re.fullmatch(r"\s*\[([^\[\]]+)\]\s*", text)
        try:
            numbers = [float(word) for word in vector[1].split(",")] if vector else []
        except ValueError:
            numbers = []
        if not numbers:
            raise syntax_error(pg_type.name, text)
        return struct.pack("<hh", len(numbers), 0) + np.array(numbers, dtype).tobytes()

    return parse_each(texts, valid, pg_type, parse_one)


def send_vectors(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As vector_send and halfvec_send: the same numbers, big-endian."""
    return format_each(values, lambda payload: _swapped(payload, NUMBERS[pg_type.name]))


def receive_vectors(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As vector_recv and halfvec_recv."""
    return receive_each(texts, valid, pg_type, lambda sent: _swapped(sent, NUMBERS[pg_type.name]))


def _swapped(raw: bytes, dtype: str) -> bytes:
    return swap_bytes(raw[:HEAD], 2) + swap_bytes(raw[HEAD:], np.dtype(dtype).itemsize)


def arrow_vectors(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """list of float, or string."""
    return pa.string() if style.arrays == "text" else pa.list_(pa.float32())


def vectors_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    """The numbers as 32-bit floats, or the text."""
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
        indices = struct.unpack_from(f"<{count}i", payload, SPARSE_HEAD)
        words = _words(np.frombuffer(payload, "<f4", count, SPARSE_HEAD + 4 * count))
        return "{" + ",".join(f"{index + 1}:{word}" for index, word in zip(indices, words, strict=True)) + f"}}/{size}"

    return format_each(values, text_of)


def parse_sparse(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As sparsevec_in."""

    def parse_one(text: str) -> bytes:
        vector = re.fullmatch(r"\s*\{([^{}]*)\}/(\d+)\s*", text)
        if vector is None:
            raise syntax_error(pg_type.name, text)
        pairs = [word.partition(":") for word in vector[1].split(",") if word]
        try:
            elements = sorted((int(index) - 1, float(number)) for index, _, number in pairs if float(number))
        except ValueError:
            raise syntax_error(pg_type.name, text) from None
        indices, numbers = [index for index, _ in elements], [number for _, number in elements]
        count = len(elements)
        return struct.pack(f"<iii{count}i{count}f", int(vector[2]), count, 0, *indices, *numbers)

    return parse_each(texts, valid, pg_type, parse_one)


def send_sparse(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As sparsevec_send: the same numbers, which are all 4 bytes wide, big-endian."""
    return format_each(values, lambda payload: swap_bytes(payload, 4))


def receive_sparse(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As sparsevec_recv."""
    return receive_each(texts, valid, pg_type, lambda sent: swap_bytes(sent, 4))
