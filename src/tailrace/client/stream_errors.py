"""Why a server ends a physical stream, or does not begin it: what it says, whether it would say it again, and what to do.

In: errors of a replication connection, in the server's words. Out: the same, or an error that explains it.
"""

from __future__ import annotations

from tailrace.errors import MissingHistory, TailraceError, UsageError

GONE = "58P01"
REMOVED = "has already been removed"
_AHEAD = "is ahead of the WAL flush position of this server"
_HISTORY = ".history"


def is_final(error: TailraceError) -> bool:
    """Whether the same would happen again."""
    return (
        error.sqlstate == GONE or REMOVED in error.message or _AHEAD in error.message
        or error.sqlstate in ("42704", "42501", "42601", "55000", "0A000", "08P01")
    )  # fmt: skip


def explained(error: TailraceError) -> TailraceError:
    """What is raised, with what helps."""
    if REMOVED in error.message:
        return MissingHistory(
            error.message, sqlstate=GONE,
            hint="The server did not keep what was not received yet (wal_keep_size, or a physical slot would have it keep that). Have the segments "
            "that are missing brought from the server's own archive (restore_command, which tailrace slot set gives a state location); or begin "
            "anew, with an empty state location or another directory: a lake then needs --resync.",
        )  # fmt: skip
    if error.sqlstate == GONE and _HISTORY in error.message:
        return UsageError(
            error.message, sqlstate=GONE,
            hint="The server was never on the timeline up to which the log was received: it is the one that another was promoted from, or an earlier "
            "copy. Receive from the server that is on that timeline, or into another directory, and begin there with a new catalog state.",
        )  # fmt: skip
    return error
