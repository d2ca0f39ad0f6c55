"""bytea (`adt/varlena.c`, `utils/adt/encode.c`), bit and bit varying (`adt/varbit.c`), and uuid.

Bits are (how many, their number).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

from tailrace.expressions.evaluate.fmgr.function_calls import Implementation, rows
from tailrace.expressions.evaluate.fmgr.refusals import evaluation_error, invalid_parameter, out_of_range

Bits = tuple[int, int]
_INT_MAX = 0x7FFFFFFF


def _substring(value: bytes, start: int, length: int | None = None) -> bytes:
    if length is not None and length < 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    end = None if length is None or start + length > _INT_MAX else max(start + length - 1, 0)
    return value[max(start, 1) - 1 : end]


def _overlay(value: bytes, new: bytes, start: int, length: int | None = None) -> bytes:
    length = len(new) if length is None else length
    if start <= 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    if start + length > _INT_MAX:
        raise out_of_range("integer")
    return value[: start - 1] + new + value[max(start + length, 1) - 1 :]


def _index(place: int, count: int) -> int:
    if not 0 <= place < count:
        raise evaluation_error(f"index {place} out of valid range, 0..{count - 1}", "2202E")
    return place


def _get_bit(value: bytes, place: int) -> int:
    _index(place, 8 * len(value))
    return value[place // 8] >> (place % 8) & 1


def _set_bit(value: bytes, place: int, bit: int) -> bytes:
    _index(place, 8 * len(value))
    _one_bit(bit)
    changed = bytearray(value)
    changed[place // 8] = changed[place // 8] & ~(1 << place % 8) & 0xFF | bit << place % 8
    return bytes(changed)


def _one_bit(bit: int) -> None:
    if bit not in (0, 1):
        raise invalid_parameter("new bit must be 0 or 1")


def _get_byte(value: bytes, place: int) -> int:
    return value[_index(place, len(value))]


def _set_byte(value: bytes, place: int, byte: int) -> bytes:
    _index(place, len(value))
    return value[:place] + bytes([byte & 0xFF]) + value[place + 1 :]


def _stripped(where: str) -> Callable[[bytes, bytes], bytes]:
    def run(value: bytes, letters: bytes) -> bytes:
        if not letters:
            return value
        return value.strip(letters) if where == "b" else value.lstrip(letters) if where == "l" else value.rstrip(letters)

    return run


def _encode(value: bytes, form: str) -> str:
    match form.lower():
        case "hex":
            return value.hex()
        case "base64":
            raw = base64.b64encode(value).decode()
            return "\n".join(raw[at : at + 76] for at in range(0, len(raw), 76))
        case "escape":
            return "".join("\\\\" if byte == 92 else chr(byte) if 0 < byte < 128 else f"\\{byte:03o}" for byte in value)
    raise invalid_parameter(f'unrecognized encoding: "{form}"')


def _digest(name: str) -> Implementation:
    return rows(lambda value: hashlib.new(name, value).digest(), True)


def _same_size(name: str, how: Callable[[int, int], int]) -> Implementation:
    def run(left: Bits, right: Bits) -> Bits:
        if left[0] != right[0]:
            raise evaluation_error(f"cannot {name} bit strings of different sizes", "22026")
        return left[0], how(left[1], right[1])

    return rows(run)


def order(left: Bits, right: Bits) -> int:
    """By the bytes that they fill, then by how many there are (`bit_cmp`)."""
    mine, other = bytes_of_bits(left), bytes_of_bits(right)
    if mine != other:
        return -1 if mine < other else 1
    return (left[0] > right[0]) - (left[0] < right[0])


def bytes_of_bits(value: Bits) -> bytes:
    count, number = value
    return (number << (-count % 8)).to_bytes((count + 7) // 8, "big")


def _shift(sign: int) -> Callable[[Bits, int], Bits]:
    def run(value: Bits, distance: int) -> Bits:
        count, number = value
        places = distance * sign
        if abs(places) >= count:
            return count, 0
        return count, (number << places if places >= 0 else number >> -places) & (1 << count) - 1

    return run


def _bit_substring(value: Bits, start: int, length: int | None = None) -> Bits:
    count, number = value
    first = max(start, 1)
    if length is None:
        end = count + 1
    elif length < 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    else:
        end = min(start + length, count + 1)
    if first > count or end <= first:
        return 0, 0
    size = end - first
    return size, number >> (count - end + 1) & (1 << size) - 1


def _concatenated(left: Bits, right: Bits) -> Bits:
    return left[0] + right[0], left[1] << right[0] | right[1]


def _bit_overlay(value: Bits, new: Bits, start: int, length: int | None = None) -> Bits:
    length = new[0] if length is None else length
    if start <= 0:
        raise evaluation_error("negative substring length not allowed", "22011")
    if start + length > _INT_MAX:
        raise out_of_range("integer")
    head = _concatenated(_bit_substring(value, 1, start - 1), new)
    return _concatenated(head, _bit_substring(value, start + length))


def _bit_position(value: Bits, part: Bits) -> int:
    if part[0] == 0 and value[0] == 0:
        return 1 if part[0] == 0 and value[0] else 0
    if part[0] == 0:
        return 1
    digits, wanted = f"{value[1]:0{value[0]}b}" if value[0] else "", f"{part[1]:0{part[0]}b}"
    return digits.find(wanted) + 1


def _bit_index(value: Bits, place: int) -> int:
    count = value[0]
    if not 0 <= place < count:
        raise evaluation_error(f"bit index {place} out of valid range (0..{count - 1})", "2202E")
    return count - 1 - place


def _bit_get(value: Bits, place: int) -> int:
    return value[1] >> _bit_index(value, place) & 1


def _bit_set(value: Bits, place: int, bit: int) -> Bits:
    shift = _bit_index(value, place)
    _one_bit(bit)
    return value[0], value[1] & ~(1 << shift) | bit << shift


def _bits_to_integer(bits: int, label: str) -> Callable[[Bits], int]:
    def run(value: Bits) -> int:
        if value[0] > bits:
            raise out_of_range(label)
        return value[1] - (1 << bits) if value[1] >> bits - 1 else value[1]

    return run


def _of_integer(bits: int) -> Callable[[int, int], Bits]:
    """bit(n) of an integer: its last n bits, or its sign before them."""

    def run(number: int, count: int) -> Bits:
        count = count if 0 < count <= 83886080 else 1
        return count, number & (1 << count) - 1

    return run


def _bit_fitted(value: Bits, typmod: int, explicit: bool) -> Bits:
    count, number = value
    if typmod <= 0 or count == typmod:
        return value
    if not explicit:
        raise evaluation_error(f"bit string length {count} does not match type bit({typmod})", "22026")
    return typmod, number << typmod - count if count < typmod else number >> count - typmod


def _varbit_fitted(value: Bits, typmod: int, explicit: bool) -> Bits:
    count, number = value
    if typmod <= 0 or count <= typmod:
        return value
    if not explicit:
        raise evaluation_error(f"bit string too long for type bit varying({typmod})", "22001")
    return typmod, number >> count - typmod


FUNCTIONS: dict[str, Implementation] = {
    "byteacat": rows(lambda left, right: left + right, True), "byteaoctetlen": rows(len, True),
    "bit_length(bytea)": rows(lambda value: 8 * len(value), True),
    "bytea_substr": rows(_substring), "bytea_substr_no_len": rows(_substring, True), "byteaoverlay": rows(_overlay),
    "byteaoverlay_no_len": rows(_overlay),
    "byteaGetBit": rows(_get_bit), "byteaSetBit": rows(_set_bit), "byteaGetByte": rows(_get_byte), "byteaSetByte": rows(_set_byte),
    "byteatrim": rows(_stripped("b"), True), "bytealtrim": rows(_stripped("l"), True), "byteartrim": rows(_stripped("r"), True),
    "byteapos": rows(lambda value, part: value.find(part) + 1, True), "bytea_bit_count": rows(lambda value: int.from_bytes(value,
    "big").bit_count(), True),
    "md5_bytea": rows(lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest(), True), "sha224_bytea": _digest("sha224"),
    "sha256_bytea": _digest("sha256"), "sha384_bytea": _digest("sha384"), "sha512_bytea": _digest("sha512"), "binary_encode": rows(_encode),
    "bit_and": _same_size("AND", lambda left, right: left & right), "bit_or": _same_size("OR", lambda left, right: left | right),
    "bitxor": _same_size("XOR", lambda left, right: left ^ right), "bitnot": rows(lambda value: (value[0], ~value[1] & (1 << value[0]) - 1), True),
    "bitshiftleft": rows(_shift(1), True), "bitshiftright": rows(_shift(-1), True), "bitcat": rows(_concatenated, True),
    "bitsubstr": rows(_bit_substring), "bitsubstr_no_len": rows(_bit_substring, True), "bitoverlay": rows(_bit_overlay),
    "bitoverlay_no_len": rows(_bit_overlay),
    "bitposition": rows(_bit_position, True), "bitgetbit": rows(_bit_get), "bitsetbit": rows(_bit_set), "bitlength": rows(lambda value: value[0],
    True),
    "bit_length(bit)": rows(lambda value: value[0], True), "bitoctetlength": rows(lambda value: (value[0] + 7) // 8, True),
    "bit_bit_count": rows(lambda value: value[1].bit_count(), True), "bittoint4": rows(_bits_to_integer(32, "integer")),
    "bittoint8": rows(_bits_to_integer(64, "bigint")), "bitfromint4": rows(_of_integer(32), True), "bitfromint8": rows(_of_integer(64), True),
    "bit": rows(_bit_fitted), "varbit": rows(_varbit_fitted),
    "biteq": rows(lambda left, right: left == right, True), "bitne": rows(lambda left, right: left != right, True),
    "bitlt": rows(lambda left, right: order(left, right) < 0, True), "bitle": rows(lambda left, right: order(left, right) <= 0, True),
    "bitgt": rows(lambda left, right: order(left, right) > 0, True), "bitge": rows(lambda left, right: order(left, right) >= 0, True),
    "uuid_eq": rows(lambda left, right: left == right, True), "uuid_ne": rows(lambda left, right: left != right, True),
    "uuid_lt": rows(lambda left, right: left < right, True), "uuid_le": rows(lambda left, right: left <= right, True),
    "uuid_gt": rows(lambda left, right: left > right, True), "uuid_ge": rows(lambda left, right: left >= right, True),
}  # fmt: skip
