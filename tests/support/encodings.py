"""What a server makes of every code of every encoding that a database may have, asked in bulk.

In: a server. Out: for each code (bytes) its UTF-8 form, or the error: SQLSTATE and message, behind a byte 255, which no UTF-8 has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.types.encodings.conversion import to_utf8
from tailrace.types.encodings.server_encodings import NAMES, codec_named
from tailrace.types.values import Texts

REFUSED = b"\xff"
NUMBERS = {name: number for number, name in NAMES.items()}
MULTIBYTE = ("EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004")
DIGESTS = {
    "EUC_JP": "68e0d4604ac6f905", "EUC_CN": "c2855ee78f0ec131", "EUC_KR": "d27c5ec2173aaca9", "EUC_TW": "3c68331966d97e1d",
    "EUC_JIS_2004": "a79af4f8484e32b8", "LATIN1": "febc394b2471950e", "LATIN2": "0ccc8f4bb4834850", "LATIN3": "8671e80b5b2cb3a4",
    "LATIN4": "e89b855dca5a7bba", "LATIN5": "a278caa3c8b99483", "LATIN6": "e9f96f5ed4d78390", "LATIN7": "7afde8fb49c65efb",
    "LATIN8": "abe28982f7439293", "LATIN9": "41958402275c77ed", "LATIN10": "8eb67d95f0cc72ac", "WIN1256": "684606bbd950916e",
    "WIN1258": "651d728730ca1139", "WIN866": "6949841b392c5bd4", "WIN874": "d7dc07ed314735db", "KOI8R": "ef22451084ceef0b",
    "WIN1251": "695bd1615db5048f", "WIN1252": "32f8ef3b859cac47", "ISO_8859_5": "24d9677182cbf604", "ISO_8859_6": "aec57f3e3a227b9b",
    "ISO_8859_7": "5d0aee2fbb840dcd", "ISO_8859_8": "cf2726cfeba5c9b3", "WIN1250": "8841e59d13994301", "WIN1253": "27d105f85bb2ea8e",
    "WIN1254": "da735f927c0a9b73", "WIN1255": "785b499cf6e0e7df", "WIN1257": "f16ff2177a352e65", "KOI8U": "fbb2a197adbfbc7c",
}  # fmt: skip
"""Of each encoding's whole map, the same from 14 and 18, as `tools/encodings.py` printed them."""
_ASK = """
CREATE FUNCTION pg_temp.told(code bytea, encoding text) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    RETURN convert_to(convert_from(code, encoding), 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN '\\xff'::bytea || convert_to(sqlstate || ' ' || sqlerrm, 'UTF8');
END $$
"""


def codes_of(encoding: str) -> Iterator[bytes]:
    """Every single byte; and for encodings of more, whatever may begin a character, cut off at every length, with what may follow and what not."""
    yield from (bytes([byte]) for byte in range(1, 256))
    high = range(0x80, 0x100)
    if encoding in MULTIBYTE:
        yield from (bytes(code) for code in product(high, (0x01, 0x20, 0x41, 0x7F, *high)))
        yield from (bytes(code) for code in product((0x8E, 0x8F), high, high))
    if encoding == "EUC_TW":  # planes beyond 2 have no characters: a few codes will do
        yield from (bytes(code) for code in product((0x8E,), (0xA1, 0xA2), range(0xA0, 0x100), range(0xA0, 0x100)))
        yield from (bytes(code) for code in product((0x8E, 0x8F), high, range(0xA0, 0x100, 5), (0xA0, 0xA1, 0xFE, 0xFF)))


def server_map(server: Server, encoding: str) -> dict[bytes, bytes]:
    """As the server reads them."""
    with server.connect() as connection:
        connection.execute(_ASK)
        connection.execute("CREATE TEMP TABLE code (code bytea)")
        codes = sorted(set(codes_of(encoding)))
        with connection.cursor().copy("COPY code FROM STDIN") as copy:
            copy.write("".join(f"\\\\x{code.hex()}\n" for code in codes))
        rows = connection.execute("SELECT code, pg_temp.told(code, %s) FROM code", [encoding]).fetchall()
    return {bytes(code): bytes(told) for code, told in rows}


@cache
def our_map(encoding: str) -> dict[bytes, bytes]:
    """As we do. What our codec takes is converted at once, as columns are; the rest one by one, for what is said of it."""
    codec = codec_named(NUMBERS[encoding])
    taken, told = [], {}
    for code in set(codes_of(encoding)):
        try:
            code.decode(codec)
            taken.append(code)
        except UnicodeDecodeError:
            told[code] = _refusal(code, codec)
    return told | dict(zip(taken, to_utf8(Texts.of(taken), codec).to_bytes(), strict=True))


def _refusal(code: bytes, codec: str) -> bytes:
    try:
        return to_utf8(Texts.of([code]), codec).to_bytes()[0]
    except UsageError as error:
        return REFUSED + f"{error.sqlstate} {error.message}".encode()


def digest(told: Mapping[bytes, bytes]) -> str:
    """One word for a whole map."""
    lines = (code.hex().encode() + b" " + told[code] + b"\n" for code in sorted(told))
    return hashlib.sha256(b"".join(lines)).hexdigest()[:16]
