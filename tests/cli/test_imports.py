"""What is loaded when: nobody waits for Numba to be told what there is, or that a word is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from support.cases import open_case
from support.servers import Server
from tailrace.cli.verbs import app
from tailrace.version import __version__

HEAVY = ("numba", "llvmlite", "numpy", "pyarrow", "pandas", "pglast", "pyspark", "duckdb", "deltalake", "psycopg")
BY_NO_MEANS = (*HEAVY, "pydantic")
"""typer has pydantic say what is wrong with a value, and for nothing else (`cli/plain_values.py`)."""
ASKED = """
import contextlib, io, json, sys
from tailrace.cli import main
heavy, lines = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for words in lines:
    sys.argv = ["tailrace", *words]
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            status = ended.code
    loaded = [name for name in heavy if name in sys.modules]
    print(json.dumps([status, out.getvalue(), err.getvalue(), loaded]), file=sys.__stdout__)
    if loaded:
        break
"""


def _asked(lines: list[tuple[str, ...]], heavy: tuple[str, ...] = HEAVY) -> Iterator[tuple[int, str, str]]:
    """Status, output and errors of each of these command lines, all in one process: what one loads the next has."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, json.dumps(heavy), json.dumps(lines)], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    for words, line in zip(lines, done.stdout.splitlines(), strict=False):
        status, out, err, loaded = json.loads(line)
        assert not loaded, f"tailrace {' '.join(words)} loads {loaded}"
        yield status, out, err


def _verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every verb and every group, by the words that call it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from _verbs(inner, (*words, name))


VERBS = list(_verbs(typer.main.get_command(app)))


def test_help_loads_nothing() -> None:
    for words, (status, out, _) in zip(VERBS, _asked([(*words, "--help") for words in VERBS], BY_NO_MEANS), strict=True):
        assert (status, " ".join(("tailrace", *words)) in out) == (0, True), words


def test_a_wrong_option_loads_nothing() -> None:
    for status, out, err in _asked([(*words, "--nonesuch") for words in VERBS]):
        assert (status, out) == (2, "")
        assert "nonesuch" in err


def test_a_verb_without_its_arguments_loads_nothing() -> None:
    complete = {("demo",), ("messages",), ("spool", "ls"), ("spool", "clean")}
    asked = [words for words in VERBS if words not in complete]
    for words, (status, out, err) in zip(asked, _asked(asked), strict=True):
        assert (status, "Missing" in err or "Usage" in out + err) == (2, True), words


def test_the_version_and_a_verb_that_is_not_there_load_nothing() -> None:
    (version, typed) = _asked([("--version",), ("nonesuch",)], BY_NO_MEANS)
    assert version == (0, f"tailrace {__version__}\n", "")
    assert typed[0] == 2


def test_no_slots_are_listed_at_once(tmp_path: Path) -> None:
    ((status, _, err),) = _asked([("slot", "ls", "--state", str(tmp_path))], BY_NO_MEANS)
    assert (status, err.splitlines()[0]) == (1, f'tailrace: error: "{tmp_path}" is not a state location')


def test_only_the_called_verb_is_loaded() -> None:
    others = tuple(f"tailrace.cli.verbs.{words[0]}" for words in VERBS if len(words) == 1 and words != ("decode",))
    assert len(others) > 10
    assert [status for status, _, _ in _asked([("decode", "--help")], others)] == [0]


WRONG = {
    "decode . --database d --start-lsn 1": 'invalid input syntax for type pg_lsn: "1"',
    "decode . --database d --upto-lsn x/y": 'invalid input syntax for type pg_lsn: "x/y"',
    "decode . --database d --window 5QB": 'invalid size: "5QB"',
    "decode . --database d --set datestyle=none": 'invalid value for parameter "DateStyle": "none"',
    "decode . --database d --set logical_decoding_work_mem=1kB": "1 kB is outside the valid range",
    "decode . --database d --set nonesuch=1": 'unrecognized configuration parameter "nonesuch"',
    "decode . --database d --unknown-types x": 'invalid value for parameter "unknown_types": "x"',
    "history . t --database d --window x": 'invalid size: "x"',
    "blame . t 1 --database d --window x": 'invalid size: "x"',
    "undo . --xid 1 --database d --window x": 'invalid size: "x"',
    "history . t": "no database is named",
    "blame . t 1": "no database is named",
    "undo . --xid 1": "no database is named",
    "publication ls . --state s": "no database is named",
    "wal dump . --start 1": "pg_lsn",
    "wal dump . --rmgr nonesuch": 'resource manager "nonesuch" does not exist',
    "wal dump . --relation 1": 'invalid relation specification: "1"',
    "slot create a . --database d --state s --at yesterday": "invalid input syntax for type timestamp with time zone",
    "slot create a . --database d --state s --window x": 'invalid size: "x"',
    "slot get a --state s --upto-lsn 1": "pg_lsn",
    "slot peek a --state s --set nonesuch=1": "nonesuch",
    "slot receive a --state s": "give a file or a writer",
    "slot receive a --state s -f - --create-slot .": "no database is named",
    "slot receive a --state s -f - --temporary": "options of a new slot need --create-slot",
    "slot advance a 1 --state s": "pg_lsn",
    "publication ls . --database d --state s --at 1": "pg_lsn",
    "sql nonesuch --database d --state s": 'source directory "nonesuch" does not exist',
}


def test_words_that_mean_nothing_load_nothing() -> None:
    for (words, error), (status, out, err) in zip(WRONG.items(), _asked([tuple(each.split()) for each in WRONG]), strict=True):
        assert (status, out) == (1, ""), words
        assert error in err, words


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("tailrace de", ["decode", "demo"]), ("tailrace slot re", ["receive", "rename"]), ("tailrace decode . --on s", ["spark"])],
)
def test_completion_loads_nothing(typed: str, offered: list[str], tmp_path: Path) -> None:
    program = tmp_path / "tailrace"
    program.write_text(
        "import sys\nfrom tailrace.cli import main\ntry:\n    main()\nfinally:\n"
        f"    sys.stderr.write(str([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    asked = {"_TAILRACE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, env={**os.environ, **asked})
    assert (done.stdout.split(), done.stderr) == (offered, "[]")


def test_a_shell_can_be_told_of_completion(tmp_path: Path) -> None:
    program = tmp_path / "tailrace"
    program.write_text("from tailrace.cli import main\nmain()\n")
    environment = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    for shell, script in (
        ("bash", "complete -o default -F _tailrace_completion tailrace"),
        ("zsh", "compdef"),
        ("fish", "complete"),
    ):
        done = subprocess.run(
            [sys.executable, program, "--show-completion", shell], capture_output=True, text=True, check=True, env=environment
        )
        assert script in done.stdout


UNUSED = (
    "pandas", "pydantic", "pglast", "pyspark", "py4j", "sqlglot", "duckdb", "deltalake", "psycopg", "IPython", "tailrace.expressions",
    "tailrace.logicalproto.message", "tailrace.lake", "tailrace.apply", "tailrace.sql", "tailrace.demo", "tailrace.spark.session",
    "tailrace.spark.jobs",
    "tailrace.plugins.pgoutput", "tailrace.plugins.wal2json", "tailrace.plugins.debezium", "tailrace.plugins.callbacks",
    "tailrace.publications.publishing.filter_compiler", "pyarrow.compute", "numba.np.arrayobj",
)  # fmt: skip
"""What decoding without publications, and a look at what there is, have no use for. Each of them was loaded once."""
READ = ("tailrace.pipeline", "tailrace.plan", "tailrace.decode", "tailrace.publications", "tailrace.plugins.driver")
WORKING = """
import json, sys
from tailrace.cli import main
unused = json.loads(sys.argv.pop(1))
try:
    main()
finally:
    print([name for name in unused if name in sys.modules], file=sys.stderr)
"""


def test_verbs_load_what_they_use(tmp_path: Path) -> None:
    case, state = open_case("xact", 18, "with_slot", tmp_path / "case"), tmp_path / "state"
    decode = ("decode", case.data_dir, "--database", case.meta["dbname"], "--start-lsn", case.meta["start_lsn"])
    assert _worked(decode, (*UNUSED, "asyncio", "tailrace.replication.acquired_slot")) == case.expected
    types = open_case("types", 18, "with_slot", tmp_path / "types")
    _worked(("decode", types.data_dir, "--database", types.meta["dbname"]), UNUSED)
    _worked(("slot", "create", "one", case.data_dir, "--database", case.meta["dbname"], "--state", state), ())
    assert "one" in _worked(("slot", "ls", "--state", state), (*UNUSED, "tailrace.types.registry"))
    assert "0000" in _worked(("wal", "ls", case.data_dir), (*UNUSED, *READ, "asyncio"))


def _worked(words: tuple[object, ...], unused: tuple[str, ...]) -> str:
    """What a command printed that loads nothing of what it has no use for."""
    done = subprocess.run(
        [sys.executable, "-c", WORKING, json.dumps(unused), *map(str, words)], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]", words
    return done.stdout


MOST_MODULES = 220
"""Python's own and typer's for the most part; it was 611 once."""
LOADED = """
import sys
from tailrace.cli import main
try:
    main()
finally:
    print(*sys.modules)
"""


@pytest.mark.postgres
def test_who_receives_a_log_loads_what_that_takes(tmp_path: Path) -> None:
    """pg_receivewal receives a gigabyte with half a second of CPU time; psycopg takes a third of that to be imported, and so does NumPy."""
    heavy = {*BY_NO_MEANS, "asyncio", "logging", "concurrent", "rich"}
    with Server(18) as server:
        server.say("CREATE TABLE t (id int)")
        for _ in range(2):  # into an empty directory, and behind what is there
            words = ["wal", "receive", server.dsn(), "--to", str(tmp_path), "--endpos", server.flush_lsn(), "--no-loop"]
            done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
            loaded = done.stdout.split()
            assert heavy & {name.split(".")[0] for name in loaded} == set()
            assert len(loaded) <= MOST_MODULES
