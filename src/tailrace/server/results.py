"""Results as messages: the description of their columns, and their rows, as text or in binary form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat

import numpy as np
from numpy.typing import NDArray

from tailrace.errors import UsageError
from tailrace.model import PgType
from tailrace.server.client_session import ClientSession
from tailrace.server.client_text import text_of
from tailrace.server.session_parameters import SessionParameters
from tailrace.sql.result import Result, TextColumn
from tailrace.types import oids
from tailrace.types.built_in import built_in_types
from tailrace.types.registry import format_binary, format_values, has_binary, parse_binary, parse_texts
from tailrace.types.values import Texts
from tailrace.wire.messages import DataRow, FieldDescription, RowDescription

TEXT, BINARY = 0, 1
_FEW = 500
"""Rows that are made and sent at once, in some milliseconds."""


def typlen_of(oid: int) -> int:
    """pg_type.typlen."""
    found = built_in_types().get(oid)
    return found.length if found is not None else -1


def describe(columns: Sequence[TextColumn], formats: Sequence[int] = ()) -> RowDescription:
    """The columns, each in its format."""
    return RowDescription(
        tuple(
            FieldDescription(column.name, column.type, typlen_of(column.type), column.typmod, layout)
            for column, layout in zip(columns, spread(formats, len(columns)), strict=True)
        )
    )


def spread(formats: Sequence[int], count: int) -> list[int]:
    """None: all are text; one: it is that of all (`Bind`)."""
    if len(formats) == 1:
        return [formats[0]] * count
    if formats and len(formats) != count:
        raise UsageError(
            f"bind message has {len(formats)} result formats but query has {count} columns", sqlstate="08P01"
        )  # fmt: skip
    return list(formats) or [TEXT] * count


def rows_of(result: Result, formats: Sequence[int] = ()) -> Iterator[DataRow]:
    """A message each, made some at a time."""
    columns = result.columns or []
    layouts = spread(formats, len(columns))
    for column, layout in zip(columns, layouts, strict=True):
        if layout == BINARY:
            _type(column.type)
    return _rows(result.rows, columns, layouts)


def _rows(count: int, columns: Sequence[TextColumn], layouts: Sequence[int]) -> Iterator[DataRow]:
    for begin in range(0, count, _FEW):
        cells = [
            to_binary(column.cells[begin : begin + _FEW], column.type)
            if layout == BINARY
            else [
                None if cell is None else cell.encode("utf-8", "surrogateescape") for cell in column.cells[begin : begin + _FEW]
            ]
            for column, layout in zip(columns, layouts, strict=True)
        ]
        yield from map(DataRow, zip(*cells, strict=True) if cells else repeat((), min(_FEW, count - begin)))


async def send_rows(session: ClientSession, rows: Iterator[DataRow]) -> int:
    """Some at a time, so that other clients have their turn; how many there were. Raises UsageError (57014) for a statement that is to end, (08006)
    once the client has gone: it has not seen them all."""
    few: list[DataRow]
    sent, link = 0, session.link
    while few := await session.in_thread(list, islice(rows, _FEW)):
        session.interrupt.check()
        link.send(*few)
        sent += len(few)
        await link.flush()
        if link.is_gone:
            break
    if link.is_gone:
        raise UsageError("connection to client lost", sqlstate="08006")
    return sent


def _type(oid: int) -> PgType:
    found = built_in_types().get(oid)
    if found is None or not has_binary(found):
        raise UsageError(
            f"no binary output function available for type {found.label if found else oid}", sqlstate="42883"
        )  # fmt: skip
    return found


def to_binary(cells: Sequence[str | None], oid: int) -> list[bytes | None]:
    """What the type's send function makes of these values."""
    kind, valid = _type(oid), np.array([cell is not None for cell in cells], np.bool_)
    values = parse_texts(Texts.of([cell or "" for cell in cells]), valid, kind)
    return _payloads(format_binary(values, kind), valid)


def to_text(value: bytes, oid: int) -> str:
    """What the type's receive function reads, as its output function prints it."""
    kind, valid = _type(oid), np.ones(1, np.bool_)
    [text] = _payloads(format_values(parse_binary(Texts.of([value]), valid, kind), kind), valid)
    return text_of(text or b"")


def _payloads(texts: Texts, valid: NDArray[np.bool_]) -> list[bytes | None]:
    data, offsets = texts.data.tobytes(), texts.offsets.tolist()
    return [data[offsets[row] : offsets[row + 1]] if is_value else None for row, is_value in enumerate(valid.tolist())]


def text_result(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str | None]], tag: str) -> Result:
    """A result of a replication command: names with type oids, and rows."""
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    made = [TextColumn(name, list(each), kind) for (name, kind), each in zip(columns, cells, strict=True)]
    return Result(made, tag, rows=len(rows))


def show(name: str, parameters: SessionParameters) -> Result:
    """What SHOW gives, as SQL and as a replication command. Raises UsageError (42704)."""
    if name.lower() == "all":
        columns = [(each, oids.TEXT) for each in ("name", "setting", "description")]
        return text_result(columns, parameters.all(), "SHOW")
    shown, setting = parameters.show(name)
    return text_result([(shown, oids.TEXT)], [[setting]], "SHOW")
