"""What can go wrong, and whose fault it is.

    TailraceError            message, detail, hint, context, SQLSTATE; position, lsn, file and block for programs
    ├─ UsageError            you: an option, a name, a position that does not fit
    │  └─ QueryCanceled      you do not want it any more
    ├─ CorruptWal            the log is damaged: checksum, broken chain, hole in the middle
    ├─ CorruptFile           a file beside the log is damaged: a catalog page, pg_control, a catalog state
    ├─ UnsupportedWal        the log is sound, but of a version or kind that we do not read
    ├─ UnsupportedFile       a file of ours is none, or of a format that this version does not read
    ├─ MissingHistory        the answer lies in WAL or catalogs that are not here; we do not guess
    ├─ InsufficientLogging   the source did not log what was asked for: wal_level, replica identity
    ├─ PluginError           an output plugin raised an error, or broke its contract
    ├─ FailedWrite           a file could not be written: no space, no permission
    ├─ Overtaken             a table of the lake has a version that this run did not know: run it again
    └─ PeerError             a server, a client or another process misbehaved or went away

Every message is PostgreSQL's own where PostgreSQL has one; `str(error)` prints like psql: ERROR, DETAIL, HINT, CONTEXT.
"""

from __future__ import annotations

from typing import Self


class TailraceError(Exception):
    """Base of all. `sqlstate` is PostgreSQL's code (errcodes.txt). `context` says where, in words. For programs the same is, as far as it is known,
    in `lsn` (of the record at fault), `file` and `block`, or in `position`: which character of a text that was given, from 1."""

    default_sqlstate = "XX000"

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        context: str = "",
        sqlstate: str = "",
        lsn: int | None = None,
        file: str = "",
        block: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.context = context
        self.sqlstate = sqlstate or self.default_sqlstate
        self.lsn = lsn
        self.file = file
        self.block = block
        self.position: int | None = None

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(f"DETAIL:  {self.detail}")
        if self.hint:
            lines.append(f"HINT:  {self.hint}")
        if self.context:
            lines.append(f"CONTEXT:  {self.context}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers to the driver; the default protocol would drop the keywords.
        return _rebuild, (type(self), self.message, {name: value for name, value in vars(self).items() if name != "message"})

    def in_text(self, position: int | None) -> Self:
        """The same error, at this character, counted from 1, of a text that was given."""
        self.position = position
        return self

    def at(self, lsn: int) -> Self:
        """The same error, of the record at this LSN if it did not know of which."""
        if self.lsn is None:
            self.lsn = lsn
            self.context = self.context or f"WAL record at {lsn}"
        return self


def count_of(number: int, noun: str, verb: str = "") -> str:
    """So many of them, in words: `1 segment`, `2,000 segments`. With a `verb` in the plural, `are` or `were`, that follows: `1 segment was`."""
    if number == 1:
        return " ".join(filter(None, (f"1 {noun}", {"are": "is", "were": "was"}.get(verb, verb))))
    return " ".join(filter(None, (f"{number:,} {noun}s", verb)))


def shortened(value: str, most: int = 80) -> str:
    """A value as a message shows it."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters)"


class UsageError(TailraceError):
    """The request does not fit: option, name, position."""

    default_sqlstate = "22023"


class QueryCanceled(UsageError):
    """Somebody asked for that (`pg_cancel_backend`, or a CancelRequest)."""

    def __init__(self, message: str = "canceling statement due to user request") -> None:
        super().__init__(message, sqlstate="57014")


class CorruptWal(TailraceError):
    """The log is damaged. The message names the file and the LSN of the record."""

    default_sqlstate = "XX001"


class CorruptFile(TailraceError):
    """A file beside the log is damaged: of the data directory, or one that tailrace wrote. The message names it, and the block."""

    default_sqlstate = "XX001"


class UnsupportedWal(TailraceError):
    """The log is sound but of a version, access method or resource manager that tailrace does not read."""

    default_sqlstate = "0A000"


class UnsupportedFile(TailraceError):
    """A file that tailrace should have written is another's, or of a format that this version does not read."""

    default_sqlstate = "0A000"


class MissingHistory(TailraceError):
    """What was asked needs WAL or catalog rows that the source no longer (or never) had."""

    default_sqlstate = "58P01"


class InsufficientLogging(TailraceError):
    """The source did not write into its log what was asked for: wal_level was below logical, a table has no replica identity."""

    default_sqlstate = "55000"


class PluginError(TailraceError):
    """An output plugin of somebody's raised an error, or broke the contract of output plugins."""


class FailedWrite(TailraceError):
    """A file could not be written: there is no space, or no permission."""

    default_sqlstate = "58030"


class Overtaken(TailraceError):
    """Another run, or another program, committed to a table of the lake while this one was on its way. Nothing of this commit is in it."""

    default_sqlstate = "40001"


class PublicationWarning(UserWarning):
    """A publication that was asked for does not exist; the stream goes on without it."""


class PeerError(TailraceError):
    """A server, a client or another process broke the protocol or went away."""

    default_sqlstate = "08P01"


def _rebuild(kind: type[TailraceError], message: str, fields: dict[str, object]) -> TailraceError:
    error = kind(message)
    vars(error).update(fields)
    return error
