"""What the evaluator raises: PostgreSQL's own errors about values, and refusals of what tailrace does not evaluate exactly."""

from __future__ import annotations

from tailrace.errors import UsageError


class Refused(UsageError):
    """A construct that tailrace does not evaluate as PostgreSQL would, by its name. It is no error on the server."""

    default_sqlstate = "0A000"


def refused(what: str, hint: str = "") -> Refused:
    """The refusal of a construct, such as `function substring(text, text)`."""
    return Refused(f"cannot evaluate {what} in a row filter", hint=hint)


def evaluation_error(message: str, sqlstate: str, hint: str = "") -> UsageError:
    """An error that the server would raise for the values of a row, in its words."""
    return UsageError(message, sqlstate=sqlstate, hint=hint)


def out_of_range(type_label: str) -> UsageError:
    """Of a number that does not fit its type."""
    return evaluation_error(f"{type_label} out of range", "22003")


def division_by_zero() -> UsageError:
    return evaluation_error("division by zero", "22012")


def invalid_parameter(message: str, hint: str = "") -> UsageError:
    """invalid_parameter_value."""
    return evaluation_error(message, "22023", hint)
