"""to_ascii (`adt/ascii.c`): bytes of LATIN1, LATIN2, LATIN9 and WIN1250 as the letters of ASCII that look like them."""

from __future__ import annotations

import re

from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error
from tailrace.types.encodings.server_encodings import NAMES

_FROM_160 = {
    "LATIN1": "  cL Y  \"Ca  -R     'u .,      ?AAAAAAACEEEEIIII NOOOOOxOUUUUYTBaaaaaaaceeeeiiii nooooo/ouuuuyty",
    "LATIN2": ' A L LS "SSTZ-ZZ a,l\'ls ,sstz"zzRAAAALCCCEEEEIIDDNNOOOOxRUUUUYTBraaaalccceeeeiiddnnoooo/ruuuuyt.',
    "LATIN9": "  cL YS sCa  -R     Zu .z   EeY?AAAAAAACEEEEIIII NOOOOOxOUUUUYTBaaaaaaaceeeeiiii nooooo/ouuuuyty",
}
_WIN1250 = '  \' "    %S<STZZ `\'"".--  s>stzz   L A  "CS  -RZ  ,l\'u .,as L"lz' + _FROM_160["LATIN2"][32:95] + " "
_ASCII = bytes(range(128)).decode()
_TABLES = {
    "WIN1250": (_ASCII + _WIN1250).encode(),
    **{name: (_ASCII + " " * 32 + letters).encode() for name, letters in _FROM_160.items()},
}
_OF_CLIENTS = ("SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004")
_ENCODINGS = {**NAMES, **dict(enumerate(_OF_CLIENTS, len(NAMES)))}


def _clean(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.translate({upper: upper + 32 for upper in range(65, 91)}))


_ALIASES = {
    **{_clean(name): name for name in _ENCODINGS.values()},
    **{_clean(name).replace("win", "windows"): name for name in NAMES.values() if name.startswith("WIN")},
    "abc": "WIN1258", "alt": "WIN866", "koi8": "KOI8R", "mskanji": "SJIS", "shiftjis": "SJIS", "tcvn": "WIN1258", "tcvn5712": "WIN1258",
    "unicode": "UTF8", "vscii": "WIN1258", "win": "WIN1251",
    **{
        word + number: name
        for word in ("win", "windows")
        for number, name in {"932": "SJIS", "936": "GBK", "949": "UHC", "950": "BIG5"}.items()
    },
    **{f"iso8859{number}": f"LATIN{latin}" for latin, number in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
}  # fmt: skip
"""pg_encname_tbl (`common/encnames.c`): names in lower case, of letters and digits alone."""


def _converted(raw: bytes, encoding: str) -> str:
    if encoding not in _TABLES:
        raise evaluation_error(f"encoding conversion from {encoding} to ASCII not supported", "0A000")
    return raw.translate(_TABLES[encoding]).decode()


def _named(name: str) -> str:
    found = _ALIASES.get(_clean(name))
    if found is None:
        raise evaluation_error(f"{name} is not a valid encoding name", "42704")
    return found


def _numbered(number: int) -> str:
    if number not in _ENCODINGS:
        raise evaluation_error(f"{number} is not a valid encoding code", "42704")
    return _ENCODINGS[number]


def _to_ascii(call: FunctionCallInfo) -> Implementation:
    encoding, codec = call.facts.encoding, text_codec(call.facts.encoding)

    def run(text: str, given: str | int = encoding) -> str:
        return _converted(text.encode(codec, "surrogateescape"), _numbered(given) if isinstance(given, int) else _named(given))

    return rows(run)


FUNCTIONS: dict[str, Implementation] = dict.fromkeys(("to_ascii_default", "to_ascii_enc", "to_ascii_encname"), made(_to_ascii))
