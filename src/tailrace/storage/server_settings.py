"""A setting of the server that owns a data directory, from the files that it was read from.

Later ones count: postgresql.conf with what it includes, postgresql.auto.conf (ALTER SYSTEM), the command line that the server was started with
(postmaster.opts). Where the configuration lies elsewhere the command line says so; what it says inside a session cannot be seen from here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

_LINE = re.compile(r"""\s*([A-Za-z_][\w.]*)\s*(?:=\s*|\s)\s*('(?:[^']|'')*'|[^\s#']+)""")
_INCLUDES = {"include", "include_if_exists", "include_dir"}
_DEEPEST = 10


def setting_of(data: Path, name: str) -> str | None:
    """Its text as it was written last, None where nobody has set it. Raises OSError where the configuration cannot be read."""
    told = dict(_of_command_line(data / "postmaster.opts"))
    main = data / told.get("config_file", "postgresql.conf")
    found = None
    for key, value in [*_of_file(main), *_of_file(data / "postgresql.auto.conf", may_lack=True), *told.items()]:
        if key == name:
            found = value
    return found


def _of_file(path: Path, depth: int = 0, *, may_lack: bool = False) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST or (may_lack and not path.exists()):
        return
    for line in path.read_text(errors="surrogateescape").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = match[1].lower(), match[2]
        if value.startswith("'"):
            value = value[1:-1].replace("''", "'")
        if name not in _INCLUDES:
            yield name, value
            continue
        named = path.parent / value
        for each in sorted(named.glob("[!.]*.conf")) if name == "include_dir" else [named]:
            yield from _of_file(each, depth + 1, may_lack=name == "include_if_exists")


def _of_command_line(path: Path) -> Iterator[tuple[str, str]]:
    """`-c name=value` and `--name=value`."""
    try:
        words = shlex.split(path.read_text(errors="surrogateescape"))
    except (FileNotFoundError, ValueError):
        return
    for before, word in zip(words, words[1:], strict=False):
        given = word if before == "-c" else word[2:] if word.startswith(("-c", "--")) else ""
        name, equals, value = given.partition("=")
        if equals:
            yield name.lower().replace("-", "_"), value
