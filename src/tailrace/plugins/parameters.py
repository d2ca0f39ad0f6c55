"""The parameters of a session that change what output plugins print. Nothing of the plugins themselves is loaded: they are checked first."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.settings import parse_work_mem
from tailrace.types.style import TextStyle

_WORK_MEM = "logical_decoding_work_mem"


def with_parameters(style: TextStyle, work_mem: int, parameters: Mapping[str, str]) -> tuple[TextStyle, int]:
    """Both with these parameters set. Raises UsageError, in PostgreSQL's words, for names and values that are none."""
    of_text = dict(parameters)
    for name in [name for name in parameters if name.lower() == _WORK_MEM]:
        work_mem = parse_work_mem(of_text.pop(name))
    return style.under(of_text), work_mem
