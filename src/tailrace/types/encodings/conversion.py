"""Text in the encodings that a database may have -> UTF-8.

Values, and the labels and names printed among them, are formatted in the database's own encoding, as the server does it; what leaves is converted
once, as the server converts for its client. All server encodings agree with ASCII below 128, so quoting never sees a difference. In SQL_ASCII
nobody knows what bytes mean: they stay as they are, and what is not UTF-8 is refused, as the server does it for a client that reads UTF-8.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.kernels import kernel
from tailrace.types.codec import string_array
from tailrace.types.encodings import multibyte
from tailrace.types.encodings.server_encodings import CHECKED, NAME_OF_CODEC
from tailrace.types.values import Texts


def to_utf8(texts: Texts, codec: str) -> Texts:
    """The texts, converted. Raises UsageError, as the server does, for bytes that are none of the encoding's, or have no equivalent."""
    if not codec or not len(texts.data) or int(texts.data.max()) < 128:
        return texts
    if codec == CHECKED:
        check_utf8(texts)
        return texts
    encoding = NAME_OF_CODEC[codec]
    if encoding in multibyte.FORMS:
        return multibyte.converted(texts, encoding)
    table, widths = _table(codec)
    sizes = widths[texts.data]
    if (sizes == 0).any():
        raise multibyte.untranslatable(texts.data[sizes == 0][:1].tobytes(), encoding)
    starts = np.zeros(len(texts.data) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    out = np.empty(starts[-1], np.uint8)
    _spell(texts.data, table, widths, out)
    offsets = starts[texts.offsets]
    return Texts(offsets - offsets[0], out[offsets[0] : offsets[-1]])


def check_utf8(texts: Texts) -> None:
    """Raises UsageError, as the server does (`pg_verify_mbstr` in `mb/mbutils.c`), for the first text that is not UTF-8."""
    data, offsets = texts.data, texts.offsets
    if not len(data) or int(data.max()) < 128:
        return
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    try:
        data[offsets[0] : offsets[-1]].tobytes().decode()
        if not ((data[starts] & 0xC0) == 0x80).any():  # no text begins within a character
            return
    except UnicodeDecodeError:
        pass
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        text = data[start:stop].tobytes()
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise multibyte.invalid(text[error.start : error.start + _utf8_length(text[error.start])], "UTF8") from None


def _utf8_length(first: int) -> int:
    """How many bytes a character has that begins so, if it is whole (`pg_utf_mblen`)."""
    return next((length for mask, head, length in ((0xE0, 0xC0, 2), (0xF0, 0xE0, 3), (0xF8, 0xF0, 4)) if first & mask == head), 1)


def strings_to_utf8(array: pa.Array, codec: str) -> pa.Array:
    """An Arrow array with every string in it converted, however deep it lies."""
    if not codec:
        return array
    if pa.types.is_string(array.type):
        texts = to_utf8(Texts.of_arrow(array.cast(pa.binary())), codec)
        return string_array(texts, array.is_valid().to_numpy(zero_copy_only=False))
    if pa.types.is_struct(array.type):
        parts = [strings_to_utf8(array.field(i), codec) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null()) if parts else array
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(
            array.offsets, strings_to_utf8(array.values, codec), type=array.type, mask=array.is_null()
        )
    return array


@cache
def _table(codec: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """For each byte its UTF-8 form and how long that is; 0 for a byte that means nothing."""
    table, widths = np.zeros((256, 4), np.uint8), np.zeros(256, np.int64)
    for byte in range(256):
        spelled = bytes([byte]).decode(codec, "ignore").encode()
        table[byte, : len(spelled)] = list(spelled)
        widths[byte] = len(spelled)
    return table, widths


@kernel
def _spell(data: Any, table: Any, widths: Any, out: Any) -> None:
    """Each byte as what it is in UTF-8, one after another."""
    at = 0
    for byte in data:
        for i in range(widths[byte]):
            out[at] = table[byte, i]
            at += 1
