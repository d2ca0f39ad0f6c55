"""Changes out of messages as typed Arrow: one record batch for each description of a relation, with columns as `changes` has
them.

In: `Scanned`. Out: by Relation a batch of its changes, in the order of the messages; rows are typed where `types` knows the type,
or it is a domain over a built-in one of which a Type message told; else they are text. What was rolled back is left out. Where a
commit has not come, commit_lsn is NULL. For programs, as `change_reader` is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tailrace.changes import KINDS, names_by_row
from tailrace.decode import DELETE, INSERT
from tailrace.errors import PeerError, TailraceError, UnsupportedWal
from tailrace.kernels import kernel
from tailrace.logicalproto import message as m
from tailrace.logicalproto.big_endian import be32
from tailrace.logicalproto.change_reader import OPEN, PREPARED, ROLLED_BACK, Scanned
from tailrace.logicalproto.tuple_columns import BINARY_BYTE, TEXT_BYTE, UNCHANGED_BYTE, TupleColumns
from tailrace.memcpy import memcpy
from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.built_in import built_in_type
from tailrace.types.codec import string_array
from tailrace.types.oid_aliases import OID_ALIASES
from tailrace.types.registry import ArrowStyle, arrow_type, codec_of, parse_binary, parse_texts, to_arrow
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS
from tailrace.types.values import Mask, Texts, Values
from tailrace.wal.heap import NO_OLD

COLUMNS = ("commit_lsn", "end_lsn", "commit_timestamp", "xid", "number", "kind", "unchanged", "new", "old")
"""As of `tailrace.changes`; `number` counts messages, as they do not say where in the log they come from."""
Types = Callable[[int], PgType | None]
_OF_A_CATALOG = frozenset({*OID_ALIASES, oids.MONEY, oids.ACLITEM, oids.JSONPATH})
"""reg*, aclitem, money, jsonpath: their text takes a catalog or a setting of the server to read, or is not read at all. Arrays of
them stay text."""
_BROKEN = (ValueError, LookupError, ArithmeticError, TypeError, struct.error, RecursionError, pa.ArrowException)
"""What reading a value may raise where a peer sends what no type's functions print."""


def change_batches(
    scanned: Scanned,
    types: Types = built_in_type,
    style: ArrowStyle = ArrowStyle(),  # noqa: B008
) -> Iterator[tuple[m.Relation, pa.RecordBatch]]:
    """The changes of every description of a relation that has some. Raises PeerError for values that are none of their types."""
    rows, facts = scanned.rows, scanned.transactions
    wanted = (rows.kind > 0) & ~scanned.undone
    wanted[wanted] &= facts.state[rows.transaction[wanted]] != ROLLED_BACK
    mine = np.flatnonzero(wanted)
    order = np.argsort(rows.relation[mine], kind="stable")
    numbers = rows.relation[mine][order]
    for part in np.split(mine[order], np.flatnonzero(np.diff(numbers)) + 1):
        if len(part):
            relation = scanned.relations[int(rows.relation[part[0]])]
            yield relation, _batch(scanned, relation, part, types, style)


def _batch(scanned: Scanned, relation: m.Relation, mine: NDArray[np.int64], types: Types, style: ArrowStyle) -> pa.RecordBatch:
    rows, facts = scanned.rows, scanned.transactions
    transaction = rows.transaction[mine]
    known = pa.array(~np.isin(facts.state[transaction], (OPEN, PREPARED)))
    kind, old_kind = rows.kind[mine], rows.old_kind[mine]

    def fact(values: NDArray[np.int64], arrow: pa.DataType) -> pa.Array:
        return pc.if_else(known, pa.array(values[transaction], arrow), pa.scalar(None, arrow))

    new, unchanged = _structs(scanned, rows.new_at[mine], relation, types, style, kind != DELETE)
    old, _ = _structs(scanned, rows.old_at[mine], relation, types, style, old_kind != NO_OLD)
    arrays = [
        fact(facts.commit_lsn, pa.int64()),
        fact(facts.end_lsn, pa.int64()),
        fact(facts.time + UNIX_TO_POSTGRES_USECS, pa.timestamp("us", "UTC")),
        pa.array(facts.xid[transaction], pa.int64()),
        pa.array(mine, pa.int64()),
        pa.array(list(KINDS.values()), pa.string()).take(pa.array(kind - np.uint8(INSERT))),
        unchanged,
        new,
        old,
    ]
    return pa.RecordBatch.from_arrays(arrays, list(COLUMNS))


def _structs(
    scanned: Scanned, at: NDArray[np.int64], relation: m.Relation, types: Types, style: ArrowStyle, present: Mask
) -> tuple[pa.StructArray, pa.ListArray]:
    """New or old tuples as structs, NULL where there is none; and the names of columns that were not sent."""
    side = tuple_side(scanned.data, at, len(relation.columns))
    arrays, fields, marked = [], [], []
    for i, column in enumerate(relation.columns):
        try:
            values = _column(side, i, column, types, scanned.types, style)
            fields.append(pa.field(column.name, values.type))
        except TailraceError as error:
            raise _of_peer(error.message, error.sqlstate, relation, column) from error
        except _BROKEN as error:
            raise _of_peer(str(error) or type(error).__name__, "22P03", relation, column) from error
        arrays.append(values)
        if (side.kind[i] == UNCHANGED_BYTE).any():
            marked.append((column.name, side.kind[i] == UNCHANGED_BYTE))
    unchanged = names_by_row(marked, len(at))
    if not fields:
        return pa.array([{} if here else None for here in present.tolist()], pa.struct([])), unchanged
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(~present)), unchanged


def _of_peer(message: str, sqlstate: str, relation: m.Relation, column: m.RelationColumn) -> PeerError:
    table = f"{relation.namespace or 'pg_catalog'}.{relation.name}"
    return PeerError(message, context=f'replication target relation "{table}" column "{column.name}"', sqlstate=sqlstate)


# -- columns ---------------------------------------------------------------------------------------------------------------


def tuple_side(data: NDArray[np.uint8], at: NDArray[np.int64], columns: int) -> TupleColumns:
    """The tuples that begin there, each of so many columns, which they are known to have; where `at` is -1 there is none, and all
    is NULL."""
    side = TupleColumns.absent(len(at), columns)
    starts = np.zeros((columns, len(at)), np.int64)
    _locate(data, at, starts, side.bounds, side.kind)
    flat = side.bounds.reshape(-1)
    np.cumsum(flat, out=flat)
    out = np.empty(int(flat[-1]) if len(flat) else 0, np.uint8)
    _gather(data, starts, side.bounds, out)
    return side._replace(data=out)


@kernel
def _locate(data: Any, at: Any, starts: Any, sizes: Any, kinds: Any) -> None:
    """Of column c and row i where its value begins, and its length, the latter in sizes[c, i + 1]."""
    columns = len(starts)
    for row in range(len(at)):
        here = at[row] + 2
        if at[row] < 0:
            continue
        for column in range(columns):
            kind = data[here]
            kinds[column, row] = kind
            here += 1
            if kind in (TEXT_BYTE, BINARY_BYTE):
                size = be32(data, here)
                starts[column, row] = here + 4
                sizes[column, row + 1] = size
                here += 4 + size


@kernel
def _gather(data: Any, starts: Any, bounds: Any, out: Any) -> None:
    """Copy the values, one column after another."""
    for column in range(len(starts)):
        for row in range(starts.shape[1]):
            to = bounds[column, row]
            size = bounds[column, row + 1] - to
            if size:
                memcpy(out, to, data, starts[column, row], size)


def _column(
    side: TupleColumns, i: int, column: m.RelationColumn, types: Types, told: dict[int, m.Type], style: ArrowStyle
) -> pa.Array:  # fmt: skip
    """A column's values, NULL where they were not sent."""
    bounds = side.bounds[i]
    texts = Texts(bounds - bounds[0], side.data[bounds[0] : bounds[-1]])
    as_text, as_binary = side.kind[i] == TEXT_BYTE, side.kind[i] == BINARY_BYTE
    _check_zero_bytes(texts, as_text)
    pg_type = _known_type(column.type_oid, types, told)
    wanted = pa.string() if pg_type is None else arrow_type(pg_type, column.type_modifier, style)
    if not (as_text.any() or as_binary.any()):
        return pa.nulls(len(texts), wanted)
    if pg_type is None or (as_binary.any() and wanted == pa.string() and codec_of(pg_type).receive is None):
        return _checked(_as_text(texts, as_text, as_binary), texts)
    found = None
    if as_text.any():
        # What becomes text anyway needs no reading, which for names of relations or roles would take a catalog.
        is_text = wanted == pa.string()
        found = string_array(texts, as_text) if is_text else _typed(parse_texts(texts, as_text, pg_type), pg_type, column, style)
    if as_binary.any():
        of_binary = _typed(parse_binary(texts, as_binary, pg_type), pg_type, column, style)
        found = of_binary if found is None else pc.if_else(pa.array(as_binary), of_binary, found)
    return _checked(found, texts)


def _typed(values: Values, pg_type: PgType, column: m.RelationColumn, style: ArrowStyle) -> pa.Array:
    return to_arrow(values, pg_type, column.type_modifier, style)


def type_of(oid: int, told: Mapping[int, m.Type], types: Types = built_in_type) -> PgType:
    """The type as which values of this one are read: text, where that would take a catalog."""
    found = _known_type(oid, types, dict(told)) or built_in_type(oids.TEXT)
    assert found is not None
    return found


def _known_type(oid: int, types: Types, told: dict[int, m.Type]) -> PgType | None:
    """The type, if its values can be read without a catalog."""
    found = types(oid)
    if found is None and oid in told and told[oid].namespace in ("", "pg_catalog"):
        found = _named(told[oid].name)
    if found is None or (found.kind == "a" and found.element is not None and found.element.oid in _OF_A_CATALOG):
        return None
    try:
        codec_of(found)
        arrow_type(found)
    except UnsupportedWal:
        return None
    return found


def _named(name: str) -> PgType | None:
    """A built-in type: what a Type message says of a domain is what it is made from."""
    from tailrace.types.built_in import built_in_types  # noqa: PLC0415

    return next((each for each in built_in_types().values() if each.name == name), None)


def _as_text(texts: Texts, as_text: Mask, as_binary: Mask) -> pa.Array:
    """Values of a type that nobody knows: the text, or the bytes in hex, as bytea prints them."""
    if not as_binary.any():
        return string_array(texts, as_text)
    rows = zip(texts.to_bytes(), as_binary.tolist(), strict=True)
    return string_array(Texts.of(["\\x" + raw.hex() if binary else raw for raw, binary in rows]), as_text | as_binary)


def _check_zero_bytes(texts: Texts, as_text: Mask) -> None:
    if as_text.any() and len(texts.data) and not texts.data.min():
        zeros = np.flatnonzero(texts.data == 0)
        if as_text[np.searchsorted(texts.offsets, zeros, "right") - 1].any():
            raise PeerError('invalid byte sequence for encoding "UTF8": 0x00', sqlstate="22021")


def _checked(array: pa.Array, texts: Texts) -> pa.Array:
    """The same, sure to be UTF-8 where it is text."""
    if len(texts.data) and texts.data.max() > 127:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise PeerError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None
    return array
