"""pg_lsn: a u64, printed in two halves. In Arrow a string of that."""

from __future__ import annotations

from tailrace.model import Lsn, PgType
from tailrace.settings import parse_lsn
from tailrace.types.codec import parse_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_lsns(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As pg_lsn_out: 16/B374D848."""
    numbers, valid = values.as_dtype("<u8").tolist(), values.valid.tolist()
    return Texts.of([str(Lsn(number)) if present else "" for number, present in zip(numbers, valid, strict=True)])


def parse_lsns(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As pg_lsn_in."""
    return parse_each(texts, valid, pg_type, lambda text: parse_lsn(text).to_bytes(8, "little"))
