"""What COPY … TO STDOUT gives, in arrays of megabytes: a kernel takes the messages out of libpq, and no row becomes an object of Python's.

In: a session of psycopg's, and a COPY in binary form. Out: arrays that each begin and end where a row does, the header left out; the last ends in the
trailer. Where psycopg's libpq is not found as a file, psycopg hands over one message at a time, which takes four times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import CDLL, c_void_p, cast
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from tailrace.client.libpq import libpq_file
from tailrace.kernels import kernel
from tailrace.wire.binary_copy import rows_behind_header

_BYTES = 8 << 20
_ENDED = -1
"""What PQgetCopyData returns where the COPY is over."""
_Array = NDArray[np.uint8]


def copied_data(session: Any, command: str) -> Iterator[_Array]:
    """Raises psycopg's errors, as the server does. Who does not take all of it is to close the session."""
    addresses = _addresses()
    arrays = _by_messages(session, command) if addresses is None else _by_kernel(session.pgconn, command, *addresses)
    is_first = True
    for array in arrays:
        begin = rows_behind_header(array[:64].tobytes()) if is_first else 0
        is_first = False
        yield array[begin:]


def _by_messages(session: Any, command: str) -> Iterator[_Array]:
    parts, size = [], 0
    with session.cursor().copy(command) as copy:
        for data in copy:
            parts.append(data)
            size += len(data)
            if size >= _BYTES:
                yield np.frombuffer(b"".join(parts), np.uint8)
                parts, size = [], 0
    if parts:
        yield np.frombuffer(b"".join(parts), np.uint8)


def _by_kernel(connection: Any, command: str, get: int, free: int) -> Iterator[_Array]:
    _check(connection.exec_(command.encode()), "COPY_OUT")
    message, status = np.zeros(2, np.int64), 0
    while status != _ENDED:
        out = np.empty(max(_BYTES, int(message[1])), np.uint8)
        size, status = _fill(connection.pgconn_ptr, get, free, message, out)
        if status < _ENDED:
            break
        if size:
            yield out[:size]
    results = []
    while (result := connection.get_result()) is not None:
        results.append(result)
    for each in results:
        _check(each, "COMMAND_OK")


def _check(result: Any, wanted: str) -> None:
    from psycopg import errors, pq  # noqa: PLC0415 - only those who connect need it

    if result.status != pq.ExecStatus[wanted]:
        raise errors.error_from_result(result, encoding="utf-8")


@cache
def _addresses() -> tuple[int, int] | None:
    """Of PQgetCopyData and PQfreemem in the libpq that psycopg has loaded; None where it is not found."""
    path = libpq_file()
    if path is None:
        return None
    try:
        library = CDLL(path)
        get, free = (cast(getattr(library, name), c_void_p).value for name in ("PQgetCopyData", "PQfreemem"))
    except (OSError, AttributeError):
        return None
    return (get, free) if get and free else None


@intrinsic
def _get_message(_context: Any, get: Any, connection: Any, message: Any) -> Any:
    """int PQgetCopyData(PGconn *connection, char **message, 0), the function being at the address `get`."""

    def emit(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # noqa: PLC0415 - what is loaded compiled does without

        data = arrayobj.make_array(signature.args[2])(ctx, builder, args[2]).data
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(number, [pointer, pointer, number]).as_pointer()
        length = builder.call(
            builder.inttoptr(args[0], kind),
            [builder.inttoptr(args[1], pointer), builder.bitcast(data, pointer), ir.Constant(number, 0)],
        )
        return builder.sext(length, ir.IntType(64))

    return types.int64(types.int64, types.int64, message), emit


@intrinsic
def _take_message(_context: Any, free: Any, address: Any, length: Any, out: Any, at: Any) -> Any:
    """Copy a message into out[at : at + length], and give its memory back by PQfreemem, which is at the address `free`."""

    def emit(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        from numba.np import arrayobj  # noqa: PLC0415 - as above

        pointer = ir.IntType(8).as_pointer()
        source = builder.inttoptr(args[1], pointer)
        into = arrayobj.make_array(signature.args[3])(ctx, builder, args[3]).data
        cgutils.raw_memcpy(builder, cgutils.pointer_add(builder, into, args[4]), source, args[2], 1)
        kind = ir.FunctionType(ir.VoidType(), [pointer]).as_pointer()
        builder.call(builder.inttoptr(args[0], kind), [source])
        return ctx.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, out, types.int64), emit


@kernel
def _fill(connection: Any, get: Any, free: Any, message: Any, out: Any) -> Any:
    """Take messages into `out` until the next does not fit. `message` has the address and the length of one that was got and is not taken yet. How
    much is in `out`, and what PQgetCopyData said last."""
    at = 0
    while True:
        if message[1] == 0:
            length = _get_message(get, connection, message)
            if length <= 0:
                return at, length
            message[1] = length
        if at + message[1] > len(out):
            return at, message[1]
        _take_message(free, message[0], message[1], out, at)
        at += message[1]
        message[1] = 0
