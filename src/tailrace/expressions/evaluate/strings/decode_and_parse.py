"""Functions that read a text of a form of its own: decode (`utils/adt/encode.c`), unistr (`adt/varlena.c`), pg_size_bytes (`adt/dbsize.c`),
parse_ident (`adt/misc.c`)."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, localcontext

from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, out_of_range
from tailrace.majors import SIZE_UNITS, SIZES_IN_B, VERTICAL_TABS_ARE_SPACE, said_by, supports
from tailrace.types import oids

_SPACES = " \n\t\r"
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ESCAPES = re.compile(rb"\\([0-3][0-7]{2}|\\)|(\\)")
_UNICODE = re.compile(r"\\(?:(\\)|([0-9A-Fa-f]{4})|u([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})|U([0-9A-Fa-f]{8}))", re.ASCII)


def _of_hex(text: str) -> bytes:
    digits: list[int] = []
    for letter in text:
        if letter in _SPACES and len(digits) % 2 == 0:
            continue
        if letter not in "0123456789abcdefABCDEF":
            raise invalid_parameter(f'invalid hexadecimal digit: "{letter}"')
        digits.append(int(letter, 16))
    if len(digits) % 2:
        raise invalid_parameter("invalid hexadecimal data: odd number of digits")
    return bytes(16 * high + low for high, low in zip(digits[::2], digits[1::2], strict=True))


def _of_base64(text: str) -> bytes:
    """Four letters are three bytes; where = begins it says how many of the last."""
    out, bits, count, kept = bytearray(), 0, 0, 3
    for letter in text:
        if letter in _SPACES:
            continue
        if letter == "=":
            if kept == 3:
                if count not in (2, 3):
                    raise invalid_parameter('unexpected "=" while decoding base64 sequence')
                kept = count - 1
            value = 0
        elif letter in _BASE64:
            value = _BASE64.index(letter)
        else:
            raise invalid_parameter(f'invalid symbol "{letter}" found while decoding base64 sequence')
        bits, count = bits << 6 | value, count + 1
        if count == 4:
            out += bits.to_bytes(3, "big")[:kept]
            bits = count = 0
    if count:
        raise invalid_parameter(
            "invalid base64 end sequence", "Input data is missing padding, is truncated, or is otherwise corrupted."
        )
    return bytes(out)


def _of_escapes(raw: bytes) -> bytes:
    def replaced(match: re.Match[bytes]) -> bytes:
        if match[2]:
            raise evaluation_error("invalid input syntax for type bytea", "22P02")
        return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])

    return _ESCAPES.sub(replaced, raw)


def _decode(call: FunctionCallInfo) -> Implementation:
    codec = text_codec(call.facts.encoding)

    def run(text: str, form: str) -> bytes:
        match form.lower():
            case "hex":
                return _of_hex(text)
            case "base64":
                return _of_base64(text)
            case "escape":
                return _of_escapes(text.encode(codec, "surrogateescape"))
        raise invalid_parameter(f'unrecognized encoding: "{form}"')

    return rows(run)


def _unistr(text: str) -> str:
    """Four, six or eight hexadecimal digits behind a backslash are a character; two of 16 bits may be a pair."""
    out: list[str] = []
    at = first = 0
    while at < len(text):
        if text[at] != "\\":
            if first:
                raise _bad_pair()
            out.append(text[at])
            at += 1
            continue
        match = _UNICODE.match(text, at)
        if match is None:
            raise evaluation_error(
                "invalid Unicode escape", "42601", "Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX."
            )
        at = match.end()
        if match[1]:
            if first:
                raise _bad_pair()
            out.append("\\")
            continue
        code = int(match[match.lastindex or 0], 16)
        if not 0 < code <= 0x10FFFF:
            raise invalid_parameter(f"invalid Unicode code point: {code:04X}")
        if first:
            if not 0xDC00 <= code < 0xE000:
                raise _bad_pair()
            code, first = 0x10000 + ((first & 0x3FF) << 10) + (code & 0x3FF), 0
        elif 0xDC00 <= code < 0xE000:
            raise _bad_pair()
        if 0xD800 <= code < 0xDC00:
            first = code
        else:
            out.append(chr(code))
    if first:
        raise _bad_pair()
    return "".join(out)


_SIZE = re.compile(r"[ \t\n\r\f\v]*([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[ \t\n\r\f\v]*(.*)", re.DOTALL)
_UNITS = {"bytes": 0, "kb": 10, "mb": 20, "gb": 30, "tb": 40, "pb": 50}


def _size_bytes(call: FunctionCallInfo) -> Implementation:
    """A number with a unit."""
    major = call.facts.style.major
    units = _UNITS | ({"b": 0} if supports(major, SIZES_IN_B) else {})

    def run(text: str) -> int:
        match = _SIZE.fullmatch(text)
        if match is None:
            raise invalid_parameter(f'invalid size: "{text}"')
        unit = match[2].rstrip(" \t\n\r\f\v")
        if unit and unit.lower() not in units:
            error = invalid_parameter(f'invalid size: "{text}"', f"Valid units are {said_by(major, SIZE_UNITS)}.")
            error.detail = f'Invalid size unit: "{match[2]}".'
            raise error
        with localcontext(prec=2000):
            size = Decimal(match[1]) * (1 << units[unit.lower()] if unit else 1)
            found = int(size.quantize(Decimal(1), ROUND_HALF_UP)) if abs(size) < 1 << 64 else 1 << 64
        if not -(1 << 63) <= found < 1 << 63:
            raise out_of_range("bigint")
        return found

    return rows(run)


def _bad_pair() -> Exception:
    return evaluation_error("invalid Unicode surrogate pair", "42601")


_WORD, _QUOTED = re.compile(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"), re.compile(r'"((?:[^"]|"")*)"', re.DOTALL)
_TO_LOWER = {upper: upper + 32 for upper in range(65, 91)}


def _parse_ident(call: FunctionCallInfo) -> Implementation:
    """Names with dots between them; what is not quoted is folded."""
    spaces = " \t\n\r\f\v" if supports(call.facts.style.major, VERTICAL_TABS_ARE_SPACE) else " \t\n\r\f"

    def run(text: str, strict: bool = True) -> Array:
        def invalid(detail: str = "") -> Exception:
            error = invalid_parameter(f'string is not a valid identifier: "{text}"')
            error.detail = detail
            return error

        names: list[object] = []
        rest, after_dot = text.lstrip(spaces), False
        while True:
            quoted, word = _QUOTED.match(rest), _WORD.match(rest)
            if quoted is not None:
                if not quoted[1]:
                    raise invalid("Quoted identifier must not be empty.")
                names.append(quoted[1].replace('""', '"'))
            elif rest[:1] == '"':
                raise invalid("String has unclosed double quotes.")
            elif word is not None:
                names.append(word[0].translate(_TO_LOWER))
            elif rest[:1] == ".":
                raise invalid('No valid identifier before ".".')
            else:
                raise invalid('No valid identifier after ".".' if after_dot else "")
            rest = rest[(quoted or word).end() :].lstrip(spaces)  # type: ignore[union-attr]
            if rest[:1] != ".":
                break
            rest, after_dot = rest[1:].lstrip(spaces), True
        if rest and strict:
            raise invalid()
        return Array.of_list(names, oids.TEXT)

    return rows(run)


FUNCTIONS: dict[str, Implementation] = {
    "parse_ident": made(_parse_ident),
    "binary_decode": made(_decode),
    "unistr": rows(_unistr),
    "pg_size_bytes": made(_size_bytes),
}
