"""Finding a few rows in a log: those of some keys, or of a transaction.

In: pieces of a log, and what is sought. Out: `RowChange`s. Columns are compared whole in workers; only what is found becomes
objects and leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.catalog.history.partitions import Partitions
from tailrace.dataclass import dataclass
from tailrace.decode import DELETE, INSERT, OLD_ROW, UPDATE, Batch
from tailrace.model import PgType
from tailrace.past.row_changes import Key, KeyColumns, RowChange, TextOf, changes_of, texts_of
from tailrace.piece_changes import Decoder
from tailrace.plan.pieces import Piece
from tailrace.types import oids
from tailrace.types.encodings.server_encodings import unchecked
from tailrace.types.style import TextStyle
from tailrace.types.values import Mask, Values

_NULL, _VALUE, _NEXT = "n", "v", "\0"
_WIDE = pa.large_string()


@dataclass(frozen=True, slots=True)
class ChangeSearch:
    """Changes of these relations (None: of all): every one; or those of rows that, before or after, have one of `keys` in
    `columns`. `partitions` says which changes are a partitioned table's."""

    oids: frozenset[int] | None
    columns: KeyColumns | None = None
    keys: frozenset[Key] = frozenset()
    partitions: Partitions | None = None


@dataclass(slots=True)
class FoundChanges:
    """The changes; and how many there were besides that do not tell of which row they are."""

    changes: list[RowChange]
    unidentified: int = 0


def find_changes(decode: Decoder, sought: ChangeSearch, piece: Piece) -> FoundChanges:
    """Those of a piece. Runs in a worker."""
    result = FoundChanges([])
    keys = None if sought.columns is None else _Keys(sought.columns, sought.keys)
    for batch in decode(piece, sought.oids):
        texts = TextOf(TextStyle(major=piece.plan.major, names=batch.names), unchecked(piece.plan.codec))
        held = np.ones(len(batch), np.bool_)
        if sought.partitions is not None:
            held = sought.partitions.held(batch.relation.oid, batch.lsn, piece.ordinals[batch.ordinal])
        if keys is not None:
            has_key, is_identified = keys.found(batch, texts)
            result.unidentified += int((held & ~has_key & ~is_identified).sum())
            held &= has_key
        rows = np.flatnonzero(held)
        if len(rows):
            result.changes += changes_of(batch.take(rows), piece, texts)
    return result


class _Keys:
    """The keys that are sought, as they are compared with whole columns."""

    def __init__(self, columns: KeyColumns, keys: frozenset[Key]) -> None:
        self._columns = columns
        self._keys = sorted(keys, key=repr)
        self._joined: dict[tuple[int, ...], pa.Array] = {}

    def found(self, batch: Batch, texts: TextOf) -> tuple[Mask, Mask]:
        """Which changes have one of them, in the old tuple or the new; and which say of which row they are, before and after."""
        places = self._columns.places(batch.relation)
        if places is None:
            none = np.zeros(len(batch), np.bool_)
            return none, none
        is_identified = (batch.kind == INSERT) | (batch.old_kind == OLD_ROW)
        if {batch.columns[place].number for place in places} <= set(batch.relation.identity):
            is_identified |= batch.has_old | (batch.kind == UPDATE)
        has_key = self._among(batch, batch.new, batch.old, places, texts) & (batch.kind != DELETE)
        if batch.old is not None:
            has_key |= self._among(batch, batch.old, None, places, texts) & batch.has_old & is_identified
        return has_key, is_identified

    def _among(self, batch: Batch, side: list[Values], others: list[Values] | None, places: list[int], texts: TextOf) -> Mask:
        """Whether each row of a side has one; TOASTed values that it was not logged with are those of the other side."""
        parts = []
        types = [batch.columns[place].live_type for place in places]
        for place, pg_type in zip(places, types, strict=True):
            text = texts(side[place], pg_type)
            left_out = side[place].unchanged
            if others is not None and left_out is not None and left_out.any():
                text = pc.if_else(pa.array(left_out), texts(others[place], pg_type), text)
            parts.append(self._as_compared(text, pg_type))
        mask: Mask = pc.is_in(_joined(parts), self._wanted(types)).to_numpy(zero_copy_only=False)
        return mask

    def _wanted(self, types: Sequence[PgType]) -> pa.Array:
        """The keys, joined as the columns are."""
        oids = tuple(pg_type.oid for pg_type in types)
        if oids not in self._joined:
            columns = zip(*self._keys, strict=True) if self._keys else [()] * len(types)
            parts = [self._as_compared(texts_of(each), of) for each, of in zip(columns, types, strict=True)]
            self._joined[oids] = _joined(parts)
        return self._joined[oids]

    def _as_compared(self, texts: pa.Array, pg_type: PgType) -> pa.Array:
        return _comparable(texts, pg_type) if self._columns.as_compared else texts


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """One text a row, the same for equal values: no value has a zero byte, and NULL has another mark than they."""
    nothing = pa.scalar("", _WIDE)
    marked = [pc.fill_null(pc.binary_join_element_wise(pa.scalar(_VALUE, _WIDE), each, nothing), _NULL) for each in parts]
    return pc.binary_join_element_wise(*marked, pa.scalar(_NEXT, _WIDE))


def _comparable(texts: pa.Array, pg_type: PgType) -> pa.Array:
    """Texts that are the same where values are equal: a numeric's trailing zeros, a character's trailing blanks and the case of a
    citext do not count."""
    base = pg_type.base
    if base.oid == oids.NUMERIC:
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1"), r"\.$", "")
    if base.oid == oids.BPCHAR:
        return pc.ascii_rtrim(texts, " ")
    return pc.utf8_lower(texts) if base.name == "citext" else texts


def committing(piece: Piece, wanted: Callable[[NDArray[np.int64]], Mask]) -> Piece | None:
    """The same with only the transactions whose commit LSNs are `wanted`; None if there are none of them."""
    keep = wanted(piece.facts.commit_lsn)
    if keep.all():
        return piece
    if not keep.any():
        return None
    ordinals = piece.ordinals[keep]
    mask = np.zeros(int(piece.ordinals.max()) + 1, np.bool_)
    mask[ordinals] = True
    plan = piece.plan.restricted_to(mask)
    return None if plan is None else Piece(plan, ordinals, piece.facts.subset(np.flatnonzero(keep)))
