"""The encodings that a database may have, by the number in pg_database, and how names in them are read."""

from __future__ import annotations

from tailrace.errors import UnsupportedWal
from tailrace.types.encodings.multibyte import FORMS
from tailrace.types.encodings.multibyte_codecs import codec_of

UTF8 = ""
SQL_ASCII = 0
"""pg_database.encoding where nobody says what bytes mean."""
CHECKED = "sql_ascii"
"""Stands for a codec where a database is in SQL_ASCII, and its text goes to somebody who reads UTF-8: it is left as it is, if it is that."""
UNCONVERTED = ("SQL_ASCII", "MULE_INTERNAL")
"""Of which a server makes no UTF-8."""
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
    33: "cp1257", 34: "koi8_u", **{number: codec_of(name) for number, name in NAMES.items() if name in FORMS},
}  # fmt: skip
"""The codec of each: of a byte a character, Python's own, which agree with the server."""
NAME_OF_CODEC = {codec: NAMES[number] for number, codec in _CODECS.items() if codec}


def codec_named(encoding: int) -> str:
    """The codec of a pg_database.encoding, empty if there is nothing to convert. Raises UnsupportedWal, in the server's words, for MULE_INTERNAL,
    which the server does not convert either."""
    codec = _CODECS.get(encoding)
    if codec is None:
        raise UnsupportedWal(f"conversion between UTF8 and {NAMES.get(encoding, encoding)} is not supported")
    return codec


def codec_of_values(encoding: int) -> str:
    """The same of values, which are checked where there is nothing to convert them by."""
    return CHECKED if encoding == SQL_ASCII else codec_named(encoding)


def unchecked(codec: str) -> str:
    """The codec for those who take any bytes."""
    return UTF8 if codec == CHECKED else codec


def as_stored(text: str, codec: str) -> str:
    """A name from the catalog as it goes into Texts: its bytes are then those of the database's encoding."""
    return text.encode(codec, "surrogateescape").decode("utf-8", "surrogateescape") if codec else text
