"""Whether somebody has said where Spark runs: what spark-submit and SparkSession.builder would find. Asks without importing pyspark."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from tailrace.errors import UsageError

_PLACES = ("spark.master", "spark.remote")
_WORDS = ("--master", "--remote")


def spark_is_installed() -> bool:
    return _pyspark() is not None


@cache  # a server asks for every client
def _pyspark() -> ModuleSpec | None:
    return find_spec("pyspark")


def configured_master(environment: Mapping[str, str] = os.environ) -> str:
    """Where a master or a Connect session is configured, in words; empty if it is nowhere."""
    if _has_active_session():
        return "a session is active"
    for name in ("SPARK_REMOTE", "MASTER"):
        if environment.get(name):
            return f"{name} is {environment[name]}"
    try:
        words = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError as error:
        raise UsageError(f"invalid PYSPARK_SUBMIT_ARGS: {error}") from None
    if _named_by(words):
        return "PYSPARK_SUBMIT_ARGS names a master"
    defaults = _defaults(environment)
    return f"{defaults} names a master" if defaults and _names_master(defaults) else ""


def is_connect(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether that is a Connect session, which takes settings of its own only."""
    return bool(environment.get("SPARK_REMOTE")) or "--remote" in environment.get("PYSPARK_SUBMIT_ARGS", "")


def _has_active_session() -> bool:
    """One that this process has: then pyspark is imported already."""
    pyspark = sys.modules.get("pyspark.sql")
    return pyspark is not None and pyspark.SparkSession.getActiveSession() is not None


def _named_by(words: list[str]) -> bool:
    """Whether arguments of spark-submit name one: `--master URL`, `--conf spark.master=URL`, or a file of properties that does."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, equals, value = word.partition("=")
        value = value if equals else following
        if option in _WORDS:
            return True
        if option in ("--conf", "-c") and value.partition("=")[0] in _PLACES:
            return True
        if option == "--properties-file" and _names_master(Path(value)):
            return True
    return False


def _defaults(environment: Mapping[str, str]) -> Path | None:
    """The spark-defaults.conf that Spark will read: of SPARK_CONF_DIR, else of SPARK_HOME, else of the pyspark that is installed."""
    package = _pyspark()
    home = environment.get("SPARK_HOME") or (str(Path(package.origin).parent) if package and package.origin else "")
    folder = environment.get("SPARK_CONF_DIR") or (str(Path(home) / "conf") if home else "")
    return Path(folder) / "spark-defaults.conf" if folder else None


def _names_master(properties: Path) -> bool:
    """Names and values stand apart by white space, `=` or `:` (java.util.Properties)."""
    try:
        lines = properties.read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(re.split(r"[\s=:]", line.strip(), maxsplit=1)[0] in _PLACES for line in lines)
