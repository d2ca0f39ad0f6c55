"""What a type must bring along, and how a column finds it.

A `Codec` is a bundle of functions over whole columns: stored form -> text, binary form or Arrow; text or binary form -> stored
form. Text is what the type's output function prints (typoutput), binary what its send function sends (typsend). Containers
(arrays, ranges, composites, domains) come back here for their elements; `registry` fills the table.
Oid before kind before name: int2vector is subscripted like an array but prints otherwise, and the oid of an extension's
type differs from database to database, so these are known by name. A type that nobody knows is refused, or printed as the bytes
that are stored, as TextStyle.unknown_types says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptWal, UnsupportedWal, UsageError
from tailrace.model import InternalFunctions, PgType
from tailrace.types import oids
from tailrace.types.built_in import built_in_type
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

Quoting = Literal["bare", "quoted", "bits"]


_CHOICES = (
    ("numeric", "decimal, text"),
    ("arrays", "list, text"),
    ("times", "native, bounded, text"),
    ("smallint", "int16, int32"),
)


@dataclass(frozen=True, slots=True)
class ArrowStyle:
    """Choices in the mapping to Arrow: `numeric` is decimal or text, `arrays` list or text, `times` native, bounded or text, and `smallint` int16 or
    int32.

    Bounded times are those that Python's datetime holds in every time zone, with the first and the last for the infinities. Text is for
    columns with values that the other form cannot hold. `text` says how; dates and times in it are best left in the default style, which
    does not depend on who reads.
    """

    numeric: str = "decimal"
    arrays: str = "list"
    times: str = "native"
    smallint: str = "int16"
    text: TextStyle = field(default_factory=TextStyle)

    def __post_init__(self) -> None:
        for name, known in _CHOICES:
            value = getattr(self, name)
            if value not in known.split(", "):
                raise UsageError(f'invalid value for parameter "{name}": "{value}"', hint=f"Available values: {known}.")


@dataclass(frozen=True, slots=True)
class Codec:
    """One family's functions, each over a whole column.

    `format` and `parse` are typoutput and typinput, `send` and `receive` typsend and typreceive; a type without a send function has
    none of ours either, and travels as text where others travel as binary. Without `arrow` and `to_arrow` a column becomes a
    string of its text form. `quoting` is how test_decoding wraps the text.
    """

    format: Callable[[Values, PgType, TextStyle], Texts]
    parse: Callable[[Texts, Mask, PgType], Values]
    arrow: Callable[[PgType, int, ArrowStyle], pa.DataType] | None = None
    to_arrow: Callable[[Values, PgType, int, ArrowStyle], pa.Array] | None = None
    quoting: Quoting = "quoted"
    send: Callable[[Values, PgType, TextStyle], Texts] | None = None
    receive: Callable[[Texts, Mask, PgType], Values] | None = None


MISREAD = (ValueError, LookupError, ArithmeticError, struct.error, RecursionError, StopIteration, pa.ArrowException)
"""What reading bytes that are not of its type may raise in a codec's plain Python. Kernels raise nothing, and check what they read."""

BY_OID: dict[int, Codec] = {}
BY_KIND: dict[str, Codec] = {}
BY_NAME: dict[str, Codec] = {}


def register(codec: Codec, *, oids: tuple[int, ...] = (), kind: str = "", name: str = "") -> None:
    """Make `codec` known for built-in type oids, for a whole typtype, or for an extension's type name."""
    for oid in oids:
        BY_OID[oid] = codec
    if kind:
        BY_KIND[kind] = codec
    if name:
        BY_NAME[name] = codec


def codec_of(pg_type: PgType, unknown_types: str = "error") -> Codec:
    """The codec of a type. Raises UnsupportedWal, naming the type, for one that we do not know, unless the policy is hex."""
    codec = _known(pg_type)
    if codec is None and unknown_types == "hex":
        return HEX
    if codec is None:
        raise UnsupportedWal(
            f'cannot decode a value of type "{pg_type.label}"',
            hint="Leave the column out of the publication, set unknown_types=hex to have the stored bytes, or register a codec for the "
            "type: tailrace.types.registry.register.",
        )
    return codec


def _known(pg_type: PgType) -> Codec | None:
    if pg_type.functions is not None:
        return _of_functions(pg_type.functions)
    return BY_OID.get(pg_type.oid) or BY_KIND.get(pg_type.kind) or BY_NAME.get(pg_type.name)


@cache
def _of_functions(functions: InternalFunctions) -> Codec | None:
    """The codec of a base type that has functions of built-in types for its own. To Arrow it is text, and to test_decoding, as to the server, no type
    that it knows."""
    output, source = built_in_type(functions.output), built_in_type(functions.input)
    sent_as, received_as = built_in_type(functions.send), built_in_type(functions.receive)
    if output is None or output.oid not in BY_OID:
        return None

    def parse(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
        return parse_texts(texts, valid, _found(source, pg_type))

    def send(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
        return format_binary(values, _found(sent_as, pg_type), style)

    def receive(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
        return parse_binary(texts, valid, _found(received_as, pg_type))

    return Codec(
        format=lambda values, _, style: format_values(values, output, style),
        parse=parse,
        send=send if functions.send else None,
        receive=receive if functions.receive else None,
    )


def _found(built_in: PgType | None, pg_type: PgType) -> PgType:
    """The built-in type whose function the type has. Raises UnsupportedWal if that function is none of theirs."""
    if built_in is None:
        raise UnsupportedWal(f'cannot decode a value of type "{pg_type.label}"')
    return built_in


def format_values(values: Values, pg_type: PgType, style: TextStyle = TextStyle()) -> Texts:  # noqa: B008 (frozen)
    """PostgreSQL's output function for a whole column; rows that are NULL give an empty text. Raises CorruptWal if a value is none of its type."""
    codec = codec_of(pg_type, style.unknown_types)
    with _as_stored(pg_type):
        return codec.format(values, pg_type, style)


def parse_texts(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """PostgreSQL's input function for a whole column; only rows that are `valid` are read."""
    return codec_of(pg_type).parse(texts, valid, pg_type)


def has_binary(pg_type: PgType) -> bool:
    """Whether the type has a send function that we know: a domain has its base's, an array has one whatever its element has."""
    if pg_type.kind == "d" and pg_type.element is not None:
        return has_binary(pg_type.element)
    codec = _known(pg_type)
    return codec is not None and codec.send is not None


def format_binary(values: Values, pg_type: PgType, style: TextStyle = TextStyle()) -> Texts:  # noqa: B008 (frozen)
    """PostgreSQL's send function for a whole column; rows that are NULL give nothing. Raises UsageError for a type without one, and as
    `format_values`."""
    send = codec_of(pg_type, style.unknown_types).send
    if send is None:
        raise UsageError(f"no binary output function available for type {pg_type.label}", sqlstate="42883")
    with _as_stored(pg_type):
        sent = send(values, pg_type, style)
    return style.to_client(sent) if style.to_client is not None and _is_sent_as_text(pg_type) else sent


_SENT_AS_TEXT = frozenset({
    oids.NAME, oids.TEXT, oids.JSON, oids.XML, oids.PG_NODE_TREE, oids.BPCHAR, oids.VARCHAR, oids.REFCURSOR, oids.JSONB,
    oids.JSONPATH,
})  # fmt: skip
"""name text json xml pg_node_tree bpchar varchar refcursor jsonb jsonpath: their binary form is characters, of the last two behind a version."""
_EXTENSIONS_SENT_AS_TEXT = frozenset({"citext", "ltree", "lquery", "ltxtquery"})


def _is_sent_as_text(pg_type: PgType) -> bool:
    if pg_type.functions is not None:
        return False  # the built-in type's own send function has converted it
    return (
        pg_type.oid in _SENT_AS_TEXT or pg_type.kind == "e" or (pg_type.kind == "b" and pg_type.name in _EXTENSIONS_SENT_AS_TEXT)
    )


def characters_sent(words: Sequence[bytes], style: TextStyle) -> list[bytes]:
    """Characters inside of a binary form, as the client has them."""
    return list(words) if style.to_client is None or not words else style.to_client(Texts.of(list(words))).to_bytes()


def parse_binary(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """PostgreSQL's receive function for a whole column; only rows that are `valid` are read."""
    receive = codec_of(pg_type).receive
    if receive is None:
        raise UsageError(f"no binary input function available for type {pg_type.label}", sqlstate="42883")
    return receive(texts, valid, pg_type)


def arrow_type(pg_type: PgType, typmod: int = -1, style: ArrowStyle = ArrowStyle()) -> pa.DataType:
    """The Arrow type of a column; only types that Spark takes (`pa.string()`, never large_string)."""
    codec = codec_of(pg_type, style.text.unknown_types)
    return pa.string() if codec.arrow is None else codec.arrow(pg_type, typmod, style)


def to_arrow(values: Values, pg_type: PgType, typmod: int = -1, style: ArrowStyle = ArrowStyle()) -> pa.Array:
    """The column as an Arrow array of exactly `arrow_type(...)`, NULL where not valid. Raises as `format_values`."""
    codec = codec_of(pg_type, style.text.unknown_types)
    with _as_stored(pg_type):
        if codec.to_arrow is None:
            return string_array(codec.format(values, pg_type, style.text), values.valid)
        return codec.to_arrow(values, pg_type, typmod, style)


@contextmanager
def _as_stored(pg_type: PgType) -> Iterator[None]:
    """Raises CorruptWal for what reading stored bytes raises that are none of the type's."""
    try:
        yield
    except MISREAD as error:
        raise none_of_its_type(pg_type) from error


def none_of_its_type(pg_type: PgType) -> CorruptWal:
    """What is said of stored bytes that no value of the type has."""
    return CorruptWal(f'found a value of type "{pg_type.label}" that is none')


def quoting(pg_type: PgType) -> Quoting:
    """How test_decoding wraps the text: it looks at the declared type, so a domain over integer is quoted."""
    return codec_of(pg_type, "hex").quoting


def string_array(texts: Texts, valid: Mask, kind: pa.DataType | None = None) -> pa.Array:
    """Texts with 32-bit offsets, as Spark demands. The bytes are not copied."""
    if len(texts.data) > np.iinfo(np.int32).max:
        raise UsageError("a batch holds more than 2 GB of one column", hint="Ask for smaller batches.")
    buffers = [mask_buffer(valid), pa.py_buffer(texts.offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(texts.data))]
    return pa.Array.from_buffers(kind or pa.string(), len(texts), buffers)


def mask_buffer(valid: Mask) -> pa.Buffer | None:
    """Arrow's validity bitmap, or None where every row is valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def primitive_array(numbers: np.ndarray, valid: Mask, kind: pa.DataType) -> pa.Array:
    """Numbers of the right width as an Arrow array, without copying them."""
    return pa.Array.from_buffers(kind, len(valid), [mask_buffer(valid), pa.py_buffer(np.ascontiguousarray(numbers))])


def parse_each(texts: Texts, valid: Mask, pg_type: PgType, parse_one: Callable[[str], bytes]) -> Values:
    """Parse row by row in Python: for input functions, which are off the hot path (the WAL holds stored forms)."""
    rows = zip(texts.to_list(), valid.tolist(), strict=True)
    return Values.of_payloads([parse_one(text) if present else None for text, present in rows], pg_type.length)


def syntax_error(type_name: str, text: str) -> UsageError:
    """What every input function of PostgreSQL says."""
    return UsageError(f'invalid input syntax for type {type_name}: "{text}"', sqlstate="22P02")


def range_error(type_name: str, text: str) -> UsageError:
    """What they say of a number that the type cannot hold."""
    return UsageError(f'value "{text}" is out of range for type {type_name}', sqlstate="22003")


def format_error(type_name: str) -> UsageError:
    """What receive functions say of bytes that do not fit."""
    return UsageError(f"incorrect binary data format for type {type_name}", sqlstate="22P03")


def cut_short(pg_type: PgType) -> UsageError:
    """What receive functions say of bytes that end too early."""
    return UsageError("insufficient data left in message", context=f"type {pg_type.label}", sqlstate="08P01")


def format_each(values: Values, text_of: Callable[[bytes], str | bytes]) -> Texts:
    """Print (or send) row by row in Python: for types that are rare in tables."""
    rows = zip(values.payload_list(), values.valid.tolist(), strict=True)
    return Texts.of([text_of(payload) if present else "" for payload, present in rows])


def receive_each(texts: Texts, valid: Mask, pg_type: PgType, read_one: Callable[[bytes], bytes]) -> Values:
    """Read binary forms row by row."""
    rows = zip(texts.to_bytes(), valid.tolist(), strict=True)
    try:
        return Values.of_payloads([read_one(sent) if present else None for sent, present in rows], pg_type.length)
    except (struct.error, IndexError):
        raise cut_short(pg_type) from None


def _print_hex(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    return format_each(values, lambda payload: "\\x" + payload.hex())


def _read_hex(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return parse_each(texts, valid, pg_type, lambda text: bytes.fromhex(text.removeprefix("\\x")))


HEX = Codec(_print_hex, _read_hex)
"""For types that nobody knows, where the policy is to show their bytes."""
