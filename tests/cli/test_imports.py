"""What is loaded when: nobody waits for Numba to be told what verbs there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tailrace.cli.verbs import VERBS, Verb
from tailrace.version import __version__

HEAVY = (
    "numba",
    "llvmlite",
    "numpy",
    "pyarrow",
    "pglast",
    "pyspark",
    "duckdb",
    "deltalake",
    "psycopg",
    "tailrace.model",
    "tailrace.pipeline",
)
ASKED = """
import sys
from tailrace.cli import main
try:
    main()
except SystemExit:
    pass
finally:
    sys.stderr.write(f"loaded: {[name for name in HEAVY if name in sys.modules]}")
"""


def _run(*words: str) -> tuple[str, str]:
    code = f"import sys; sys.argv = ['tailrace', *{words!r}]; HEAVY = {HEAVY!r}\n{ASKED}"
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return done.stdout, done.stderr


@pytest.mark.parametrize("words", [(), ("--help",), ("--version",), ("nonesuch",), ("--nonesuch",)], ids=" ".join)
def test_nothing_heavy_is_loaded(words: tuple[str, ...]) -> None:
    out, err = _run(*words)
    assert err.endswith("loaded: []"), err
    if words == ("--version",):
        assert out == f"tailrace {__version__}\n"
    elif words == ("--help",):
        assert all(f" {name} " in out for name in VERBS)


def test_modules_say_of_their_verbs_what_help_says() -> None:
    for name, told in VERBS.items():
        said = str(Verb(name).load().help)
        assert " ".join(said.split("\n\n", maxsplit=1)[0].split()) == told
