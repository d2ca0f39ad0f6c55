"""Enums: a value is the oid of its label (`pg_enum.oid`), in text and in binary form the label. Arrow has strings."""

from __future__ import annotations

import numpy as np

from tailrace.errors import MissingHistory, UsageError
from tailrace.model import PgType
from tailrace.types.codec import Codec, parse_each
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Texts, Values


def format_enums(values: Values, pg_type: PgType, style: TextStyle) -> Texts:
    """The label of each stored pg_enum.oid. An oid that the catalog of the moment lacks is not guessed."""
    stored = values.as_dtype("<u4").astype(np.int64)
    oids = np.array([oid for oid, _ in pg_type.labels], np.int64)
    order = np.argsort(oids)
    if not len(oids):
        if values.valid.any():
            raise MissingHistory(f'enum "{pg_type.label}" has no labels')
        return Texts.of_choices((), stored, values.valid)
    choices = np.minimum(np.searchsorted(oids[order], stored), len(oids) - 1)
    strangers = values.valid & (oids[order][choices] != stored)
    if strangers.any():
        oid = int(stored[strangers][0])
        raise MissingHistory(f"invalid internal value for enum: {oid}", context=f'type "{pg_type.label}"')
    return Texts.of_choices([pg_type.labels[place][1] for place in order.tolist()], choices, values.valid)


def parse_enums(texts: Texts, valid: Mask, pg_type: PgType) -> Values:
    oids = {label: oid for oid, label in pg_type.labels}

    def parse_one(text: str) -> bytes:
        if text not in oids:
            raise UsageError(f'invalid input value for enum {pg_type.label}: "{text}"', sqlstate="22P02")
        return oids[text].to_bytes(4, "little")

    return parse_each(texts, valid, pg_type, parse_one)


ENUM = Codec(format=format_enums, parse=parse_enums, send=format_enums, receive=parse_enums)
