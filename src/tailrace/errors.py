"""What can go wrong, and whose fault it is.

    TailraceError            message, hint, context (source, slot, LSN …), SQLSTATE
    ├─ UsageError            you: an option, a name, a position that does not fit
    ├─ CorruptWal            the log is damaged: checksum, broken chain, hole in the middle
    ├─ CorruptFile           a file beside the log is damaged: a catalog page, pg_control, a catalog state
    ├─ UnsupportedWal        the log is sound, but of a version or kind that we do not read
    ├─ MissingHistory        the answer lies in WAL or catalogs that are not here; we do not guess
    └─ PeerError             a server or client misbehaved

Every message is PostgreSQL's own where PostgreSQL has one; `str(error)` prints like psql: ERROR, HINT, CONTEXT.
"""

from __future__ import annotations


class TailraceError(Exception):
    """Base of all. `sqlstate` is PostgreSQL's code (errcodes.txt); `context` says where, with the LSN if there is one."""

    default_sqlstate = "XX000"

    def __init__(self, message: str, *, hint: str = "", context: str = "", sqlstate: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context
        self.sqlstate = sqlstate or self.default_sqlstate

    def __str__(self) -> str:
        lines = [self.message]
        if self.hint:
            lines.append(f"HINT:  {self.hint}")
        if self.context:
            lines.append(f"CONTEXT:  {self.context}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers to the driver; the default protocol would drop the keywords.
        return _rebuild, (type(self), self.message, self.hint, self.context, self.sqlstate)


class UsageError(TailraceError):
    """The request does not fit: option, name, position."""

    default_sqlstate = "22023"


class CorruptWal(TailraceError):
    """The log is damaged. The message names the file and the LSN of the record."""

    default_sqlstate = "XX001"


class CorruptFile(TailraceError):
    """A file beside the log is damaged: of the data directory, or one that tailrace wrote. The message names it, and the block."""

    default_sqlstate = "XX001"


class UnsupportedWal(TailraceError):
    """The log is sound but of a version, access method or resource manager that tailrace does not read."""

    default_sqlstate = "0A000"


class MissingHistory(TailraceError):
    """What was asked needs WAL or catalog rows that the source no longer (or never) had."""

    default_sqlstate = "58P01"


class PeerError(TailraceError):
    """The other end of a connection broke the protocol or went away."""

    default_sqlstate = "08P01"


def _rebuild(kind: type[TailraceError], message: str, hint: str, context: str, sqlstate: str) -> TailraceError:
    return kind(message, hint=hint, context=context, sqlstate=sqlstate)
