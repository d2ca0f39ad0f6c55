"""jsonb in binary form: a version, and the text."""

from __future__ import annotations

from tailrace.model import PgType
from tailrace.types.binary_forms import with_version, without_version
from tailrace.types.json.jsonb.text import format_jsonbs, parse_jsonbs
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def send_jsonbs(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As jsonb_send: a version, and the text."""
    return with_version(format_jsonbs(values, pg_type, style), values.valid)


def receive_jsonbs(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As jsonb_recv."""
    return parse_jsonbs(without_version(texts, valid, pg_type), valid, pg_type)
