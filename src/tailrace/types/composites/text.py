"""Composite values as text: (a,"b c",)."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.types.codec import format_values, parse_texts
from tailrace.types.composites.stored import columns_of, composites_of, live_fields
from tailrace.types.inner_values import quoted, read_quoted
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values

SPECIAL = "(),"


def format_composites(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """As record_out. Every field is printed as a column of its own."""
    columns = []
    for kind, stored in columns_of(values, pg_type):
        words = zip(format_values(stored, kind, style).to_list(), stored.valid.tolist(), strict=True)
        columns.append([quoted(word, SPECIAL) if present else "" for word, present in words])
    return Texts.of(
        [
            f"({','.join(column[row] for column in columns)})" if present else ""
            for row, present in enumerate(values.valid.tolist())
        ]
    )


def parse_composites(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    """As record_in."""
    count = len(live_fields(pg_type))
    rows = [
        _split(text, count) if present else [None] * count for text, present in zip(texts.to_list(), valid.tolist(), strict=True)
    ]
    return composites_of(rows, valid, pg_type, parse_texts)


def _split(text: str, count: int) -> list[str | None]:
    """The texts of so many fields, None for NULL."""
    at, words = 0, []
    bare = text.strip()
    while at < len(bare) and bare[at] in "(,":
        word, at = read_quoted(bare, at + 1, ",)")
        words.append(word)
    if at != len(bare) - 1 or bare[at] != ")" or len(words) != count:
        raise UsageError(f'malformed record literal: "{text}"', sqlstate="22P02")
    return words
