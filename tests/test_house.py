"""The law of the house: which way imports run, who may touch files and Spark, how long a function may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "tailrace"

# In the order of the river: nothing imports what stands after it.
PURE = [
    "model", "errors", "kernels", "wal", "transactions", "types", "tuples", "catalog", "decode", "plan", "plugins", "changes", "apply",
]  # fmt: skip
SHORE = ["storage", "river", "lake", "spark", "demo", "cli", "__main__"]
ORDER = {name: place for place, name in enumerate([*PURE, *SHORE])}

MAY_IMPORT_SPARK = {"spark"}
LONGEST_FUNCTION = 60
BANNED_NAMES = {"utils", "util", "common", "base", "helper", "helpers", "misc"}
SHORE_CALLS = {"open", "socket"}
SHORE_MODULES = {"socket", "subprocess", "shutil", "tempfile", "fsspec"}

MODULES = sorted(path for path in SRC.rglob("*.py") if path.name != "__init__.py")


def _part(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _name(path: Path) -> str:
    return str(path.relative_to(SRC))


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_run_up_the_page(path: Path) -> None:
    mine = _part(path)
    for module in _imports(ast.parse(path.read_text())):
        if module.startswith("tailrace."):
            theirs = module.split(".")[1]
            assert ORDER[theirs] <= ORDER[mine], f"{mine} imports {module}, which stands below it"
        if module.split(".")[0] == "pyspark":
            assert mine in MAY_IMPORT_SPARK, f"only spark/ knows Spark, not {mine}"


@pytest.mark.parametrize("path", [path for path in MODULES if _part(path) in PURE and path.name != "kernels.py"], ids=_name)
def test_above_the_line_nothing_waits(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not SHORE_MODULES & {module.split(".")[0] for module in _imports(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in SHORE_CALLS, f"line {node.lineno} opens something"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_functions_fit_on_a_screen(path: Path) -> None:
    """Kernels are loops that cannot be cut without cost, and are excepted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and not any("njit" in ast.unparse(decorator) for decorator in node.decorator_list):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_names_say_something_and_docstrings_are_there(path: Path) -> None:
    assert path.stem not in BANNED_NAMES
    assert ast.get_docstring(ast.parse(path.read_text())), "a module says what comes in, what goes out, and why it is separate"


def test_no_file_is_dead() -> None:
    used = {module for path in SRC.parent.rglob("*.py") for module in _imports(ast.parse(path.read_text()))}
    used |= {f"{module}.{name.name}" for path in SRC.parent.rglob("*.py") for module, name in _names(path)}
    for path in MODULES:
        if path.name == "__main__.py":
            continue  # python -m
        dotted = "tailrace." + ".".join(path.relative_to(SRC).with_suffix("").parts)
        assert dotted in used, f"{dotted} is imported by nobody"


def _names(path: Path) -> Iterator[tuple[str, ast.alias]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, name) for name in node.names)


def test_the_law_can_be_broken(tmp_path: Path) -> None:
    """A canary: the checks see what they are there to see."""
    bad = ast.parse("from tailrace.cli import decode\nimport pyspark")
    assert [module for module in _imports(bad)] == ["tailrace.cli", "pyspark"]
    assert ORDER["cli"] > ORDER["wal"]
