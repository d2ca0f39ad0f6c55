"""Types whose every value is one of a few words: bool and enums; and domains, which are another type under a new name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tailrace.errors import MissingHistory, UsageError
from tailrace.model import PgType
from tailrace.types.codec import (
    ArrowStyle,
    arrow_type,
    format_binary,
    format_values,
    mask_buffer,
    parse_binary,
    parse_each,
    parse_texts,
    syntax_error,
    to_arrow,
)
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values, binary_buffers


def pick_words(words: Sequence[str], choices: NDArray[np.int64], valid: Mask) -> Texts:
    """The word of each row, by number."""
    table = pa.array([word.encode("utf-8", "surrogateescape") for word in words] + [b""], pa.large_binary())
    return Texts(*binary_buffers(table.take(pa.array(np.where(valid, choices, len(words))))))


def format_bools(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """t or f, as boolout."""
    return pick_words(("f", "t"), values.as_dtype("u1").astype(np.int64), values.valid)


def printed_bool(values: Values) -> Texts:
    """true or false: test_decoding's own words."""
    return pick_words(("false", "true"), values.as_dtype("u1").astype(np.int64), values.valid)


def parse_bools(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As boolin: unique prefixes of true, false, yes, no, on, off; 1 and 0."""

    def parse_one(text: str) -> bytes:
        word = text.strip().lower()
        if word and ("true".startswith(word) or "yes".startswith(word) or word in {"on", "1"}):
            return b"\1"
        if word and ("false".startswith(word) or "no".startswith(word) or word in {"of", "off", "0"}):
            return b"\0"
        raise syntax_error("boolean", text)

    return parse_each(texts, valid, pg_type, parse_one)


def arrow_bools(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    return pa.bool_()


def bools_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    bits = pa.py_buffer(np.packbits(values.as_dtype("u1").astype(bool), bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [mask_buffer(values.valid), bits])


def format_enums(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The label of each stored pg_enum.oid. An oid that the catalog of the moment lacks is not guessed."""
    stored = values.as_dtype("<u4").astype(np.int64)
    oids = np.array([oid for oid, _ in pg_type.labels], np.int64)
    order = np.argsort(oids)
    if not len(oids):
        if values.valid.any():
            raise MissingHistory(f'enum "{pg_type.label}" has no labels')
        return pick_words((), stored, values.valid)
    choices = np.minimum(np.searchsorted(oids[order], stored), len(oids) - 1)
    strangers = values.valid & (oids[order][choices] != stored)
    if strangers.any():
        oid = int(stored[strangers][0])
        raise MissingHistory(f"invalid internal value for enum: {oid}", context=f'type "{pg_type.label}"')
    return pick_words([pg_type.labels[place][1] for place in order.tolist()], choices, values.valid)


def parse_enums(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    oids = {label: oid for oid, label in pg_type.labels}

    def parse_one(text: str) -> bytes:
        if text not in oids:
            raise UsageError(f'invalid input value for enum {pg_type.label}: "{text}"', sqlstate="22P02")
        return oids[text].to_bytes(4, "little")

    return parse_each(texts, valid, pg_type, parse_one)


def _under(pg_type: PgType) -> PgType:
    assert pg_type.element is not None, "a domain has a base"
    return pg_type.element


def format_domains(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """A domain is stored and printed as its base type."""
    return format_values(values, _under(pg_type), style)


def parse_domains(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """Its constraints are not checked: what we read was accepted once."""
    return parse_texts(texts, valid, _under(pg_type))


def send_domains(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    return format_binary(values, _under(pg_type), style)


def receive_domains(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    return parse_binary(texts, valid, _under(pg_type))


def arrow_domains(pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.DataType:
    """The base's. A domain over numeric(p,s) keeps its modifier in pg_type.typtypmod, which we do not carry: text."""
    return arrow_type(_under(pg_type), typmod, style)


def domains_to_arrow(values: Values, pg_type: PgType, typmod: int, style: ArrowStyle) -> pa.Array:
    return to_arrow(values, _under(pg_type), typmod, style)
