"""Domains: stored, printed, sent and mapped to Arrow as the type that they are made from."""

from __future__ import annotations

import pyarrow as pa

from tailrace.model import PgType
from tailrace.types.codec import ArrowStyle, Codec, arrow_type, format_binary, format_values, parse_binary, parse_texts, to_arrow
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


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


DOMAIN = Codec(
    format=format_domains, parse=parse_domains, send=send_domains, receive=receive_domains,
    arrow=arrow_domains, to_arrow=domains_to_arrow,
)  # fmt: skip
