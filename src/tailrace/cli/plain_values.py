"""Words of a command line whose value needs no pydantic.

typer (from 0.29) asks pydantic for the value of every parameter, of those that nobody gave as well, and loads it for that, which takes
longer than typer itself. Here what is a str, a path or a default passes as typer would let it pass; typer is asked for all else: numbers,
choices, paths with conditions, what is missing.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

_NOT_PLAIN = object()


def let_plain_values_pass(command: Any) -> Any:
    """The same command, or group of commands, whose parameters take plain values by themselves."""
    for each in getattr(command, "commands", {}).values():
        let_plain_values_pass(each)
    command.get_params = partial(_params, command.get_params)
    return command


def _params(by_typer: Any, ctx: Any) -> list[Any]:
    params: list[Any] = by_typer(ctx)
    for each in params:
        if hasattr(each, "type_descriptor") and "process_value" not in vars(each):  # of a typer that asks pydantic
            each.process_value = partial(_processed, each, each.process_value)
    return params


def _processed(parameter: Any, by_typer: Any, ctx: Any, value: Any) -> Any:
    plain = _plain(parameter, value)
    if plain is _NOT_PLAIN:
        return by_typer(ctx, value)
    return plain if parameter.callback is None else parameter.callback(ctx, parameter, plain)


def _plain(parameter: Any, value: Any) -> Any:
    annotation, is_many = parameter.type_descriptor.annotation, parameter.multiple or parameter.nargs == -1
    if value is None:
        return _NOT_PLAIN if parameter.required else () if is_many else None
    if is_many:
        return list(value) if annotation == list[str] else _NOT_PLAIN
    if annotation is Path and isinstance(value, str):
        info = parameter.type_descriptor.parameter_info
        is_any = info.file_okay and info.dir_okay and (not os.path.exists(value) or os.access(value, os.R_OK))
        return Path(value) if is_any else _NOT_PLAIN
    return value if type(value) is annotation else _NOT_PLAIN
