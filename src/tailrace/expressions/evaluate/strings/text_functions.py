"""Functions of text, name and character(n) (`adt/varlena.c`, `adt/oracle_compat.c`, `adt/varchar.c`), one value at a time on str."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from functools import partial
from typing import Any

from tailrace.expressions.evaluate.collations import Letters
from tailrace.expressions.evaluate.fmgr.array_and_record import Array
from tailrace.expressions.evaluate.fmgr.datum_forms import text_codec
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, refused
from tailrace.expressions.evaluate.fmgr.vectors import MULTIBYTE
from tailrace.majors import OCTAL_CHARS, supports
from tailrace.model import NAMEDATALEN
from tailrace.types import oids
from tailrace.types.quoting import quote_identifier, quote_literal

LARGEST = 0x3FFFFFFF
"""MaxAllocSize."""
_INT_MAX = 0x7FFFFFFF


def substring(text: str, start: int, length: int | None = None) -> str:
    """From the start-th character on; what lies before the first counts, too (`text_substring`)."""
    if length is None:
        return text[max(start, 1) - 1 :]
    if length < 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    end = start + length
    if end > _INT_MAX:
        return text[max(start, 1) - 1 :]
    return text[max(start, 1) - 1 : max(end - 1, 0)]


def left(text: str, count: int) -> str:
    return text[:count]


def right(text: str, count: int) -> str:
    if count == -_INT_MAX - 1:  # its opposite is itself
        return text
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


def _too_long() -> Exception:
    return evaluation_error("requested length too large", "54000")


def repeat(text: str, count: int) -> str:
    if len(text.encode("utf-8", "surrogateescape")) * max(count, 0) + 4 > LARGEST:
        raise _too_long()
    return text * max(count, 0)


def replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise invalid_parameter("field position must not be zero")
    parts = text.split(separator) if separator and text else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _stripped(where: str) -> Callable[..., str]:
    def run(text: str, letters: str = " ") -> str:
        if not letters:
            return text
        return text.strip(letters) if where == "b" else text.lstrip(letters) if where == "l" else text.rstrip(letters)

    return run


def _padded(at_left: bool) -> Callable[..., str]:
    def run(text: str, length: int, fill: str = " ") -> str:
        length = max(length, 0)
        if len(text) >= length or not fill:
            return text[:length]
        if 4 * length + 4 > LARGEST:
            raise _too_long()
        missing = length - len(text)
        padding = (fill * (missing // len(fill) + 1))[:missing]
        return padding + text if at_left else text + padding

    return run


def translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def overlay(text: str, new: str, start: int, length: int | None = None) -> str:
    length = len(new) if length is None else length
    if start <= 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    if start + length > _INT_MAX:
        raise evaluation_error("integer out of range", "22003")
    return substring(text, 1, start - 1) + new + substring(text, start + length)


def _chr(call: FunctionCallInfo) -> Implementation:
    utf8 = call.facts.encoding == "UTF8"
    most = 0x10FFFF if utf8 else 0x7F if call.facts.encoding in MULTIBYTE else 0xFF

    def run(code: int) -> str:
        if code < 0:
            raise evaluation_error("character number must be positive", "22023")
        if code == 0:
            raise evaluation_error("null character not permitted", "54000")
        if code > most:
            raise evaluation_error(f"requested character too large for encoding: {code}", "54000")
        if utf8 and 0xD800 <= code < 0xE000:
            raise evaluation_error(f"requested character not valid for encoding: {code}", "54000")
        return chr(code)

    return rows(run)


def _cased(what: str, how: Callable[[Letters, str], str]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        letters = call.letters()

        def run(text: str) -> str:
            letters.check(text, what)
            return how(letters, text)

        return rows(run)

    return made(make)


def _of_bytes(how: Callable[[bytes], object]) -> Implementation:
    """A function of the bytes that are stored."""

    def make(call: FunctionCallInfo) -> Implementation:
        codec = text_codec(call.facts.encoding)
        return rows(lambda text: how(text.encode(codec, "surrogateescape")))

    return made(make)


def _ascii(call: FunctionCallInfo) -> Implementation:
    is_multibyte = call.facts.encoding in MULTIBYTE

    def run(text: str) -> int:
        if is_multibyte and text and not text[0].isascii():
            raise evaluation_error("requested character too large", "54000")
        return ord(text[0]) if text else 0

    return rows(run, not is_multibyte)


def position(text: str, part: str) -> int:
    return text.find(part) + 1


def _md5(encoding: str) -> Callable[[str], str]:
    codec = text_codec(encoding)
    return lambda text: hashlib.md5(text.encode(codec, "surrogateescape"), usedforsecurity=False).hexdigest()


def _normal_form(name: str) -> str:
    form = name.upper()
    if form not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise invalid_parameter(f"invalid normalization form: {name}")
    return form


def _normalizable(text: str) -> str:
    """Text whose characters are in both this Python's and the server's Unicode."""
    if any(unicodedata.category(letter) == "Cn" for letter in text):
        raise refused("normalization of characters that Unicode did not have yet")
    return text


def _normalized(how: Callable[[Any, str], object]) -> Implementation:
    def make(call: FunctionCallInfo) -> Implementation:
        if call.facts.encoding != "UTF8":
            raise refused("Unicode normalization where the encoding is not UTF8")
        return rows(lambda text, form: how(_normal_form(form), _normalizable(text)))

    return made(make)


def text_to_array(text: str | None, separator: str | None, null: str | None = None) -> Array | None:
    """string_to_array: without a separator one element a character."""
    if text is None:
        return None
    if separator is None:
        parts = list(text)
    elif not text:
        parts = []
    else:
        parts = text.split(separator) if separator else [text]
    return Array.of_list([None if null is not None and part == null else part for part in parts], oids.TEXT)


def _fitted(label: str, padded: bool) -> Callable[[str, int, bool], str]:
    """character(n) and varchar(n): only blanks may be cut off, unless the cast is explicit."""

    def run(text: str, typmod: int, explicit: bool) -> str:
        if typmod < 4 + padded:
            return text
        most = typmod - 4
        if len(text) > most:
            if not explicit and text[most:].strip(" "):
                raise evaluation_error(f"value too long for type {label}({most})", "22001")
            return text[:most]
        return text.ljust(most) if padded else text

    return run


def name_of(text: str) -> str:
    """As a name: what is too long is cut between characters."""
    raw = text.encode("utf-8", "surrogateescape")
    return text if len(raw) < NAMEDATALEN else raw[: NAMEDATALEN - 1].decode("utf-8", "ignore")


def _char_of(text: str) -> int:
    """text -> "char": the first byte, or an octal escape (`text_char`)."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) == 4 and raw[:1] == b"\\" and all(48 <= byte <= 55 for byte in raw[1:]):
        return (int(raw[1:], 8)) & 0xFF
    return raw[0] if raw else 0


def _text_of_char(value: int) -> str:
    if value > 127:
        return f"\\{value:03o}"
    return chr(value) if value else ""


def _bpchar_of_char(value: int) -> str:
    if value > 127:
        raise refused("a character(1) of a byte beyond ASCII")
    return chr(value) if value else ""


def _char_value(call: FunctionCallInfo) -> Implementation:
    """A byte beyond ASCII is one byte of text still in majors that do not print it as \\ooo."""
    return rows(_text_of_char, supports(call.facts.style.major, OCTAL_CHARS))


def _concat_oid(name: str, oid: int) -> str:
    suffix = f"_{oid}"
    raw = name.encode("utf-8", "surrogateescape")
    most = NAMEDATALEN - 1 - len(suffix)
    return (name if len(raw) <= most else raw[:most].decode("utf-8", "ignore")) + suffix


_IN_ANY_ENCODING: dict[str, Implementation] = {
    "textcat": rows(lambda one, two: one + two, True), "textlen": rows(len, True), "textoctetlen": _of_bytes(len),
    "bit_length(text)": _of_bytes(lambda raw: 8 * len(raw)), "bpcharlen": rows(lambda text: len(text.rstrip(" ")), True),
    "bpcharoctetlen": _of_bytes(len), "text_substr": rows(substring), "text_substr_no_len": rows(substring, True),
    "text_left": rows(left, True), "text_right": rows(right, True), "text_reverse": rows(lambda text: text[::-1], True), "repeat": rows(repeat),
    "replace_text": rows(replace), "split_part": rows(split_part), "btrim": rows(_stripped("b"), True), "btrim1": rows(_stripped("b"), True),
    "ltrim": rows(_stripped("l"), True), "ltrim1": rows(_stripped("l"), True), "rtrim": rows(_stripped("r"), True),
    "rtrim1": rows(_stripped("r"), True), "lpad": rows(_padded(True)), "rpad": rows(_padded(False)), "lpad(text, integer)": rows(_padded(True)),
    "rpad(text, integer)": rows(_padded(False)), "translate": rows(translate, True), "textoverlay": rows(overlay),
    "textoverlay_no_len": rows(overlay),
    "ascii": made(_ascii), "chr": made(_chr),
    "lower": _cased("function lower", lambda letters, text: letters.lower(text)),
    "upper": _cased("function upper", lambda letters, text: letters.upper(text)),
    "initcap": _cased("function initcap", lambda letters, text: letters.initcap(text)), "quote_literal": rows(quote_literal, True),
    "quote_ident": made(lambda call: rows(partial(quote_identifier, major=call.facts.style.major), True)),
    "quote_nullable": rows(lambda text: "NULL" if text is None else quote_literal(text), True), "textpos": rows(position, True),
    "text_starts_with": rows(lambda text, start: text.startswith(start), True), "md5_text": made(lambda call: rows(_md5(call.facts.encoding), True)),
    "text_to_array": rows(text_to_array, True), "text_to_array_null": rows(text_to_array, True),
    "bpchar": rows(_fitted("character", True)), "varchar": rows(_fitted("character varying", False)),
}  # fmt: skip
"""Those that know characters and bytes of all encodings. A new one is in the other table until that has been tried."""

_IN_UTF8: dict[str, Implementation] = {
    "unicode_normalize_func": _normalized(unicodedata.normalize), "unicode_is_normalized": _normalized(unicodedata.is_normalized),
    "text_name": rows(name_of, True), "bpchar_name": rows(lambda text: name_of(text.rstrip(" ")), True),
    "name_text": rows(lambda text: text, True), "name_bpchar": rows(lambda text: text, True), "text_char": rows(_char_of),
    "char_text": made(_char_value), "char_bpchar": rows(_bpchar_of_char), "nameconcatoid": rows(_concat_oid, True),
}  # fmt: skip

FUNCTIONS = _IN_ANY_ENCODING | _IN_UTF8
OF_ANY_ENCODING = frozenset(_IN_ANY_ENCODING)
