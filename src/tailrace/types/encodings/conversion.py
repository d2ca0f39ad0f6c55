"""Text in the encodings that a database may have -> UTF-8.

Values, and the labels and names printed among them, are formatted in the database's own encoding, as the server does it; what leaves is converted
once, as the server converts for its client. All server encodings agree with ASCII below 128, so quoting never sees a difference. In SQL_ASCII
nobody knows what bytes mean, and they stay as they are.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from tailrace.errors import UnsupportedWal
from tailrace.kernels import kernel
from tailrace.types.codec import mask_buffer
from tailrace.types.encodings import multibyte
from tailrace.types.values import Texts

UTF8 = ""
NAMES = {
    0: "SQL_ASCII", 1: "EUC_JP", 2: "EUC_CN", 3: "EUC_KR", 4: "EUC_TW", 5: "EUC_JIS_2004", 6: "UTF8", 7: "MULE_INTERNAL", 8: "LATIN1",
    9: "LATIN2", 10: "LATIN3", 11: "LATIN4", 12: "LATIN5", 13: "LATIN6", 14: "LATIN7", 15: "LATIN8", 16: "LATIN9", 17: "LATIN10",
    18: "WIN1256", 19: "WIN1258", 20: "WIN866", 21: "WIN874", 22: "KOI8R", 23: "WIN1251", 24: "WIN1252", 25: "ISO_8859_5", 26: "ISO_8859_6",
    27: "ISO_8859_7", 28: "ISO_8859_8", 29: "WIN1250", 30: "WIN1253", 31: "WIN1254", 32: "WIN1255", 33: "WIN1257", 34: "KOI8U",
}  # fmt: skip
"""pg_database.encoding, of those that a database may have -> what the server calls it (`mb/pg_wchar.h`)."""
WITHOUT_ICU = frozenset({0, 5, 7, 17, 21})
"""Encodings that ICU does not know, so that none of its collations is seen there (`common/encnames.c`)."""
_CODECS = {
    0: UTF8, 6: UTF8, 8: "iso8859_1", 9: "iso8859_2", 10: "iso8859_3", 11: "iso8859_4", 12: "iso8859_9", 13: "iso8859_10", 14: "iso8859_13",
    15: "iso8859_14", 16: "iso8859_15", 17: "iso8859_16", 18: "cp1256", 19: "cp1258", 20: "cp866", 21: "cp874", 22: "koi8_r", 23: "cp1251",
    24: "cp1252", 25: "iso8859_5", 26: "iso8859_6", 27: "iso8859_7", 28: "iso8859_8", 29: "cp1250", 30: "cp1253", 31: "cp1254", 32: "cp1255",
    33: "cp1257", 34: "koi8_u", **{number: multibyte.codec_of(name) for number, name in NAMES.items() if name in multibyte.FORMS},
}  # fmt: skip
"""The codec of each: of a byte a character, Python's own, which agree with the server."""
_NAME_OF = {codec: NAMES[number] for number, codec in _CODECS.items() if codec}


def codec_named(encoding: int) -> str:
    """The codec of a pg_database.encoding, empty if there is nothing to convert. Raises UnsupportedWal, in the server's words, for MULE_INTERNAL,
    which the server does not convert either."""
    codec = _CODECS.get(encoding)
    if codec is None:
        raise UnsupportedWal(f"conversion between UTF8 and {NAMES.get(encoding, encoding)} is not supported")
    return codec


def as_stored(text: str, codec: str) -> str:
    """A name from the catalog as it goes into Texts: its bytes are then those of the database's encoding."""
    return text.encode(codec, "surrogateescape").decode("utf-8", "surrogateescape") if codec else text


def to_utf8(texts: Texts, codec: str) -> Texts:
    """The texts, converted. Raises UsageError, as the server does, for bytes that are none of the encoding's, or have no equivalent."""
    if not codec or not len(texts.data) or int(texts.data.max()) < 128:
        return texts
    encoding = _NAME_OF[codec]
    if encoding in multibyte.FORMS:
        return multibyte.converted(texts, encoding)
    table, widths = _table(codec)
    offsets = np.zeros(len(texts.offsets), np.int64)
    sizes = np.zeros(len(texts.data) + 1, np.int64)
    np.cumsum(widths[texts.data], out=sizes[1:])
    if (widths[texts.data] == 0).any():
        raise multibyte.untranslatable(texts.data[widths[texts.data] == 0][:1].tobytes(), encoding)
    offsets[:] = sizes[texts.offsets]
    out = np.empty(sizes[-1], np.uint8)
    spell(texts.data, table, widths, out)
    return Texts(offsets - offsets[0], out[offsets[0] : offsets[-1]])


def strings_to_utf8(array: pa.Array, codec: str) -> pa.Array:
    """An Arrow array with every string in it converted, however deep it lies."""
    if not codec:
        return array
    if pa.types.is_string(array.type):
        texts = Texts.of_arrow(array.cast(pa.binary()))
        told = to_utf8(texts, codec)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        return pa.Array.from_buffers(
            pa.string(),
            len(array),
            [mask_buffer(valid), pa.py_buffer(told.offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(told.data))],
        )
    if pa.types.is_struct(array.type):
        parts = [strings_to_utf8(array.field(i), codec) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null()) if parts else array
    if pa.types.is_list(array.type):
        return pa.ListArray.from_arrays(
            array.offsets, strings_to_utf8(array.values, codec), type=array.type, mask=array.is_null()
        )
    return array


@cache
def _table(codec: str) -> tuple[np.ndarray, np.ndarray]:
    """For each byte its UTF-8 form and how long that is; 0 for a byte that means nothing."""
    table, widths = np.zeros((256, 4), np.uint8), np.zeros(256, np.int64)
    for byte in range(256):
        spelled = bytes([byte]).decode(codec, "ignore").encode()
        table[byte, : len(spelled)] = list(spelled)
        widths[byte] = len(spelled)
    return table, widths


@kernel
def spell(data, table, widths, out):  # type: ignore[no-untyped-def]
    """Each byte as what it is in UTF-8, one after another."""
    at = 0
    for byte in data:
        for i in range(widths[byte]):
            out[at] = table[byte, i]
            at += 1
