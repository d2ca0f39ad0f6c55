"""Where a statement may call a function that must run exactly once, and the error where it may not, in PostgreSQL's grammar as
in Spark's."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.sql.functions.signatures import SqlFunction

FROM, TARGET, VALUE = "FROM", "target", "value"
"""Where a call stands: in FROM; as the only thing that a SELECT without FROM is for; or in an expression."""
PER_ROW = "for each row of a query"
IN_SUBQUERY = "in a subquery of an expression, which may run again, or not at all"
LATERAL = "in LATERAL, which runs it for each row"
IN_LATERAL_SUBQUERY = "in a LATERAL subquery, which runs for each row"
LIMIT_ZERO = "in a query with LIMIT 0, which does not run it"
CONSTANT_WHERE = "in a query whose WHERE does not depend on rows, which may not run it"
RECURSIVE = "in a recursive query"
UNUSED = "in a WITH query that nothing refers to, which does not run"
IN_EXPRESSION = "in an expression"


def refused_call(function: SqlFunction, why: str) -> UsageError:
    """The error (0A000) for a call that might not run once, or that gives rows where there is room for a value."""
    hint = "It must run exactly once: call it in FROM, or in a SELECT of its own." if function.moves else "Call it in FROM."
    return UsageError(f"{function.name} cannot be called {why}", hint=hint, sqlstate="0A000")


def not_constant(function: SqlFunction, hint: str = "Call it in FROM, or in a SELECT of its own, with constants.") -> UsageError:
    """The error (0A000) for an argument whose value is known only when the statement runs."""
    return UsageError(f"arguments of {function.name} must be constants", hint=hint, sqlstate="0A000")
