"""The law of the house: what stands where, who may touch what, and how long things may be (docs/architecture.md).

The lists below are the law. `KNOWN` holds what breaks it today; it may only shrink, and a line that is no longer true fails.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, fields
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.sampling import MATRIX
from tailrace.cli.verbs import COMMANDS, GROUPS
from tailrace.lake.formats import FORMATS
from tailrace.majors import MAJORS
from tailrace.plugins.registry import OURS
from tailrace.types import oids
from tailrace.wal.index import FORMAT_VERSION, Files, Index, KeptRecords, Xids
from tailrace.wal.xact import Ends

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"

FOUNDATION = (
    "version",
    "dataclass",
    "user_cache",
    "kernels",
    "memcpy",
    "ragged",
    "threads",
    "errors",
    "majors",
    "model",
    "settings",
    "checksummed_file",
)
STAGES = (
    "wal", "window", "transactions", "types", "tuples", "expressions", "catalog", "plan", "decode", "changes", "publications",
    "quarantine", "feed", "piece_changes", "copy_feed", "past", "logicalproto", "plugins", "wire", "slots", "apply", "delta_log",
)  # fmt: skip
SHORE = (
    "storage", "client", "sources", "lake", "pipeline", "replication", "verify", "sql", "spark", "server", "demo", "cli", "__main__",
)  # fmt: skip
PURE_ROOMS = ("sql/query/", "sql/psql/", "sql/spark_sql/")
"""Rooms of the shore that touch no file and nothing else of the shore themselves: text and rows go in, values come out."""
ORDER = {name: place for place, name in enumerate((*FOUNDATION, *STAGES, *SHORE))}

OUTSIDE_WORLD = frozenset(
    {
        "asyncio", "fcntl", "fsspec", "http", "io", "mmap", "os", "pathlib", "shutil", "signal", "socket", "socketserver", "ssl",
        "subprocess", "tempfile", "threading", "time", "urllib",
    }
)  # fmt: skip
PURE_PARTS = frozenset({"urllib.parse", "urllib.parse.quote", "urllib.parse.unquote"})
"""Of what touches the world, the parts that do not."""
FILE_CALLS = frozenset({"open", "read_bytes", "read_text", "write_bytes", "write_text"})
MAY_TOUCH_FILES = {"user_cache": "it finds a folder", "kernels": "it keeps compiled kernels", "threads": "it asks for threads"}

LONGEST_FUNCTION = 60
LONGEST_KERNEL = 80
MOST_PARAMETERS = 8
LONGEST_MODULE = 400
LONG_MODULES: dict[str, str] = {}
ENTRY_POINTS = frozenset(
    {
        "__main__",
        "cli",
        "copy_feed",
        "lake/changelog",
        "logicalproto/change_columns",
        "logicalproto/message_feed",
        "plugins/callbacks",
        "spark",
    }
)
"""What programs import, and nobody here needs to: feeds of a copy and of a stream among them, of which lakes are filled as of WAL."""
BY_NAME = frozenset(
    {
        *(f"cli/verbs/{name}" for name in (*COMMANDS, *GROUPS)),
        *(f"plugins/{name}" for name in OURS),
        *(f"lake/{name}/table" for name in FORMATS),
    }
)
"""Imported when somebody asks for what is in them by its name."""
BANNED_NAMES = frozenset({"utils", "util", "common", "base", "helper", "helpers", "misc"})

BYTE_ROOMS = (
    "wal/", "tuples/", "types/", "expressions/", "logicalproto/", "wire/",
    "catalog/data_directory/", "catalog/pages/", "catalog/redo/", "catalog/rows/", "catalog/history/user_tables.py",
)  # fmt: skip
"""Who knows how PostgreSQL lays out bytes: its log, its pages and tuples, its values."""
OWN_LAYOUTS = {
    "checksummed_file.py": "the header of files that only tailrace writes",
    "delta_log/deletion_vector.py": "what stands around the bitmaps of Delta's deletion vectors",
    "delta_log/file_statistics.py": "bounds of decimals in the footers of Parquet files",
    "lake/iceberg/data_files.py": "bounds in Iceberg's manifests",
    "spark/pickling.py": "how long a pickle of ours is once it is decompressed",
}
TYPE_OIDS = {number: name for name, number in vars(oids).items() if name.isupper()}
NO_TYPE_OIDS = frozenset({1000, 1020, 4096})
"""Round numbers, which mean something else wherever they stand."""
LAYOUTS = ("struct", "tailrace.wal.unaligned", "tailrace.wal.structs")

STAND_IN_SEVERAL_MODULES = {
    "Relation": "pg_class's row, and the message of that name in the manual's Logical Replication Message Formats",
}
"""Names of classes that are right in more than one module, and why."""

KNOWN: frozenset[str] = frozenset({})

ONLY_IN_THE_MARATHON = {
    # others' programs, which are built first; what they read of recorded logs is compared in `make test`
    "logicalproto/test_foreign_parsers.py::test_what_servers_sent",
    "logicalproto/test_foreign_parsers.py::test_what_we_make_of_recorded_logs",
    "logicalproto/test_foreign_parsers.py::test_a_live_server_and_ours",
    "plugins/test_debezium_engine.py::test_as_the_engine_tells_them",
    "server/test_clients.py::test_pglogrepl_streams",
    "oracle/test_clusters.py::test_a_row_of_nearly_a_gigabyte",
    # others of their kind are in `make test`, soak or the matrix
    "server/test_copies_under_load.py::test_tables_are_copied_while_others_write",
    "lake/test_walks.py::test_long_walks",
    "oracle/test_names.py::test_chance",
    "oracle/test_encodings.py::test_every_code_of_every_encoding",
    # the same with more seeds is in `make test`
    "test_hostile.py::test_much_damage_ends_in_the_same_rows_or_one_error",
    "oracle/test_regression_suite.py::test_the_regression_suite_is_told_as_the_server_tells_it",
    "oracle/test_subscription_suite.py::test_subscriptions_are_sent_what_the_server_sends",
    "publications/test_feed.py::test_every_scenario",
}


@dataclass(frozen=True)
class Module:
    """A file of ours, parsed. `name` is relative to the package."""

    path: Path
    name: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def stage(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    @property
    def dotted(self) -> str:
        return f"tailrace.{self.name.removesuffix('.py')}".replace("/", ".").removesuffix(".__init__")

    def files_imported(self, names: set[str]) -> set[str]:
        """Those of ours of these names that it needs to run; what only a type checker imports is no such thing."""
        blocks = (node for node in self.tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        checked = {node for block in blocks for node in ast.walk(block)}
        froms = [node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) and node not in checked]
        found = {(f"{node.module}.{alias.name}", node.module or "") for node in froms for alias in node.names}
        return {whole if whole in names else module for whole, module in found} & names - {self.dotted}

    def imported(self) -> set[str]:
        """Everything that it imports, dotted, with what is imported from packages."""
        found: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}: relative import"
                found.add(node.module or "")
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
        return found

    def stages_imported(self) -> set[str]:
        parts = (name.split(".") for name in self.imported())
        return {part[1] for part in parts if part[0] == "tailrace" and len(part) > 1 and part[1] in ORDER} - {self.stage}


def _modules() -> list[Module]:
    package = SOURCES / "tailrace"
    return [Module(path, path.relative_to(package).as_posix()) for path in sorted(package.rglob("*.py"))]


MODULES = _modules()
INSIDE = [module for module in MODULES if module.name != "__init__.py"]


def judge(broken: set[str], part: str) -> None:
    """Fail for what is new, and for what `KNOWN` says and is no longer so."""
    known = {line for line in KNOWN if part in line}
    assert not broken - known, "broken: " + "; ".join(sorted(broken - known))
    assert not known - broken, "no longer broken, take it out of KNOWN: " + "; ".join(sorted(known - broken))


def test_every_file_has_a_place_in_the_order() -> None:
    assert not {module.stage for module in INSIDE} - set(ORDER)


def test_every_room_has_a_row_in_the_architecture() -> None:
    house = (ROOT / "docs/architecture.md").read_text().partition("## The house")[2].partition("\n## ")[0]
    rooms = {module.stage + ("/" if "/" in module.name else ".py") for module in INSIDE} - {"__main__.py"}
    assert [room for room in sorted(rooms) if f"`{room}`" not in house] == []


def test_the_architecture_has_the_rooms_in_the_order_of_the_law() -> None:
    house = (ROOT / "docs/architecture.md").read_text().partition("## The house")[2].partition("\n## ")[0]
    firsts = re.findall(r"^\| ([^|]*) \|", house, re.MULTILINE)
    rooms = [
        room.removesuffix("/").removesuffix(".py") for first in firsts for room in re.findall(r"`([a-z_]+(?:/|\.py))`", first)
    ]
    assert rooms == [room for room in ORDER if room != "__main__"]


def test_imports_run_up_the_page() -> None:
    judge(
        {
            f"{module.name} imports {stage}"
            for module in INSIDE
            for stage in module.stages_imported()
            if ORDER[stage] > ORDER[module.stage] or (module.stage in ("errors", "model", "user_cache") and stage != "dataclass")
        },
        " imports ",
    )


def test_files_do_not_import_each_other() -> None:
    """In no circle, however late. What is imported for annotations alone does not count."""
    names = {module.dotted for module in MODULES}
    try:
        TopologicalSorter({module.dotted: module.files_imported(names) for module in INSIDE}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_what_comments_refer_to_is_there() -> None:
    """`room.module.name` and `room/module.py`, as docstrings and comments write them."""
    by_name = {module.name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): module for module in MODULES}
    paths = {module.name for module in MODULES}
    broken = set()
    for module in INSIDE:
        for reference in re.findall(r"`(?:tailrace\.)?([a-z_]+(?:\.\w+)+)`", module.text):
            first, *_, last = parts = reference.split(".")
            if first not in ORDER or last == "py" or reference == "spark.read":
                continue
            depth = next(depth for depth in range(len(parts), -1, -1) if not depth or ".".join(parts[:depth]) in by_name)
            found, rest = by_name[".".join(parts[:depth])] if depth else None, parts[depth:]
            if found is None or (rest and not re.search(rf"\b{rest[0]}\b", found.text)):
                broken.add(f"{module.name}: {reference}")
        for path in re.findall(r"`([a-z_]+(?:/\w+)+\.py)`", module.text):
            if path not in paths and not (ROOT / path).exists():
                broken.add(f"{module.name}: {path}")
    assert broken == set()


def test_dataclasses_are_made_by_our_decorator() -> None:
    """The standard library's takes ten times as long, at every start."""
    assert {module.name for module in MODULES if "dataclasses.dataclass" in module.imported()} == {"dataclass.py"}


def test_only_spark_imports_pyspark() -> None:
    users = {module.name for module in MODULES if any(name.split(".")[0] == "pyspark" for name in module.imported())}
    assert {name for name in users if not name.startswith("spark/")} == set()


def test_kernels_are_compiled_and_kept_in_one_place() -> None:
    assert [module.name for module in MODULES if {"numba.njit", "numba.jit"} & module.imported()] == []


def test_only_the_shore_touches_the_world() -> None:
    touching = set()
    for module in INSIDE:
        is_pure = module.name.startswith(PURE_ROOMS)
        if (module.stage in SHORE and not is_pure) or module.stage in MAY_TOUCH_FILES:
            continue
        touching |= {
            f"{module.name} imports {name}" for name in module.imported() - PURE_PARTS if name.split(".")[0] in OUTSIDE_WORLD
        }
        touching |= {f"{module.name} calls {name}" for name in _called(module.tree) & FILE_CALLS}
        touching |= {f"{module.name} imports {name}" for name in module.stages_imported() & set(SHORE) if is_pure}
    assert touching == set()


def _called(tree: ast.AST) -> set[str]:
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {function.id for function in functions if isinstance(function, ast.Name)}
    return names | {function.attr for function in functions if isinstance(function, ast.Attribute) and not _of_arrow(function)}


def _of_arrow(function: ast.Attribute) -> bool:
    """`pa.ipc.open_file` and its like read from memory."""
    return "pa" in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}


def test_bytes_are_read_in_their_rooms() -> None:
    judge(
        {
            f"{module.name} reads bytes by {how}"
            for module in INSIDE
            if not module.name.startswith(BYTE_ROOMS) and module.name not in OWN_LAYOUTS
            for how in _ways_to_read(module)
        },
        " reads bytes by ",
    )
    assert set(OWN_LAYOUTS) == {
        name for name in OWN_LAYOUTS for module in INSIDE if module.name == name and _ways_to_read(module)
    }


def _ways_to_read(module: Module) -> set[str]:
    """How it takes numbers of more than a byte out of bytes, or could."""
    ways = {name for name in LAYOUTS if name in module.imported()} | (_called(module.tree) & {"from_bytes"})
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        dtypes = [*node.args[1:], *(word.value for word in node.keywords)] if node.func.attr == "frombuffer" else []
        dtypes += node.args if node.func.attr == "view" else []
        ways |= {node.func.attr for dtype in dtypes if not (isinstance(dtype, ast.Attribute) and dtype.attr == "uint8")}
    return ways


def test_majors_are_asked_by_name() -> None:
    """What majors differ in is a capability or words in `majors.py`, or a table of a module that says with what it was compared."""
    judge(
        {f"{module.name} {how}" for module in INSIDE if module.name != "majors.py" for how in _majors_by_number(module)}, " major"
    )


def _majors_by_number(module: Module) -> set[str]:
    """Where a major is compared with a number or a constant, is one by default, or is the key of a table."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Compare) and _compares_a_major(node):
            found.add("compares a major")
        elif isinstance(node, ast.Call) and _called(node) & {"max", "min"}:
            if any(map(_names_major, node.args)) and any(map(_is_number, node.args)):
                found.add("compares a major")
        elif isinstance(node, ast.arguments):
            by_place = zip(reversed([*node.posonlyargs, *node.args]), reversed(node.defaults), strict=False)
            if any(_is_major_by_number(*each) for each in (*by_place, *zip(node.kwonlyargs, node.kw_defaults, strict=True))):
                found.add("has a number for a major")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_major_by_number(target, node.value) for target in targets):
                found.add("has a number for a major")
        elif isinstance(node, ast.Dict) and "COMPARED" not in module.text and _is_by_major(node):
            found.add("has a table by major")
    return found


def _compares_a_major(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    in_order = any(isinstance(how, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for how in node.ops)
    return any(map(_names_major, sides)) and (in_order or any(map(_is_number, sides)))


def _is_major_by_number(name: ast.AST, value: ast.AST | None) -> bool:
    return _names_major(name) and value is not None and _is_number(value)


def _is_by_major(node: ast.Dict) -> bool:
    return len(node.keys) > 1 and {key.value if isinstance(key, ast.Constant) else None for key in node.keys} <= set(MAJORS)


def _names_major(node: ast.AST) -> bool:
    name = getattr(node, "id", getattr(node, "attr", getattr(node, "arg", "")))
    return str(name).split("_")[-1] == "major"


def _is_number(node: ast.AST) -> bool:
    """A number, or a tuple of some; 0 is no major's."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value != 0


def test_what_there_is_one_of_stands_once() -> None:
    """PostgreSQL's epoch and NAMEDATALEN are asked of `model.py`; handlers of signals are put back by who installs them (`cli/signals.py`)."""
    broken = set()
    for module in INSIDE:
        if module.name != "cli/signals.py" and "signal.signal(" in module.text:
            broken.add(f"{module.name} installs a handler of a signal")
        if module.name != "model.py":
            broken |= {f"{module.name} has {each} of its own" for each in _constants_of_postgres(module)}
    assert broken == set()


def _constants_of_postgres(module: Module) -> set[str]:
    """2000-01-01, in whatever unit, and lengths of names."""
    found = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and node.value in (946_684_800, 946_684_800_000, 946_684_800_000_000):
            found.add("PostgreSQL's epoch")
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("datetime(2000, 1, 1"):
            found.add("PostgreSQL's epoch")
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value in (63, 64):
            found |= {"NAMEDATALEN" for target in node.targets if "NAME" in ast.unparse(target)}
    return found


def test_a_verb_is_one_name_in_two_rooms() -> None:
    """Who looks for what an option of `tailrace VERB` does finds it in the file of `cli/` that is called as the one of `cli/verbs/`."""
    names = {module.name for module in MODULES}
    verbs = {name.removeprefix("cli/verbs/") for name in names if name.startswith("cli/verbs/")} - {"__init__.py", "options.py"}
    assert (
        sorted(name for name in verbs if f"cli/{name}" not in names and f"{name.removesuffix('.py')}/__init__.py" not in names)
        == []
    )


def test_type_oids_have_names() -> None:
    """`oids.TIMESTAMPTZ`, not 1184 (types/oids.py)."""
    bare = {
        f"{module.name} writes {each} for a type"
        for module in INSIDE
        if module.name != "types/oids.py"
        for each in _bare_oids(module)
    }
    assert bare == set()


def _bare_oids(module: Module) -> set[int]:
    """Decimal numbers that are oids of types, and can be meant as nothing else. What is below 100 is, beside `oids.` in a set or as a key, compared
    with what is called an oid or a type, or called as the type is."""
    numbers = [
        node
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in TYPE_OIDS
    ]
    suspects = [node for node in numbers if node.value >= 100 and node.value not in NO_TYPE_OIDS]
    for node in ast.walk(module.tree):
        members = node.keys if isinstance(node, ast.Dict) else node.elts if isinstance(node, ast.Set) else []
        if any(isinstance(each, ast.Attribute) and ast.unparse(each).startswith("oids.") for each in members):
            suspects += [each for each in members if each in numbers]
        if isinstance(node, ast.Compare) and re.search(r"(oid|[._]type)$", ast.unparse(node.left)):
            suspects += [each for right in node.comparators for each in ast.walk(right) if each in numbers]
        if isinstance(node, ast.Assign):
            pairs = zip(_parts(node.targets[0]), _parts(node.value), strict=False)
            suspects += [
                value for name, value in pairs if value in numbers and TYPE_OIDS[value.value] == ast.unparse(name).strip("_")
            ]
    return {node.value for node in suspects if ast.get_source_segment(module.text, node) == str(node.value)}


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


LOOK_UPS = (
    "codec_of",
    "arrow_type",
    "format_binary",
    "format_values",
    "has_binary",
    "parse_binary",
    "parse_texts",
    "quoting",
    "to_arrow",
)
"""What finds a type's codec in the table, which `types/registry.py` fills."""


def test_codecs_are_looked_up_where_they_are_registered() -> None:
    """Whoever imports a look-up from `types/codec/__init__.py` depends on somebody else's having imported the table."""
    wanted = {f"tailrace.types.codec.{name}" for name in LOOK_UPS}
    assert [module.name for module in INSIDE if module.stage != "types" and wanted & module.imported()] == []


def test_functions_are_short() -> None:
    long = {
        f"{module.name}: {node.name}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= (LONGEST_KERNEL if _is_kernel(node) else LONGEST_FUNCTION)
    }
    judge({f"{name} is too long" for name in long}, " is too long")


def test_functions_take_few_parameters() -> None:
    """Verbs of the command line apart, whose parameters are its options."""
    many = {
        f"{module.name}: {node.name}"
        for module in MODULES
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        and not (module.stage == "cli" and node.name[0] != "_")
        and _parameters(node) > MOST_PARAMETERS
    }
    judge({f"{name} takes too many parameters" for name in many}, " takes too many parameters")


def _is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("kernel" in ast.dump(decorator) for decorator in function.decorator_list)


def _parameters(function: ast.FunctionDef) -> int:
    given = function.args
    names = [
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg)))
    ]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_the_law_can_be_broken(tmp_path: Path) -> None:
    """A canary: the checks see what they are there to see."""
    path = tmp_path / "bad.py"
    path.write_text("import pyspark\nfrom tailrace.cli import decode\n\n\ndef read(path):\n    return path.read_bytes()\n")
    bad = Module(path, "wal/bad.py")
    assert bad.imported() == {"pyspark", "tailrace.cli", "tailrace.cli.decode"}
    assert bad.stages_imported() == {"cli"}
    assert ORDER["cli"] > ORDER[bad.stage]
    assert _called(bad.tree) & FILE_CALLS == {"read_bytes"}
    path.write_text(
        "import struct\nfrom tailrace.wal.unaligned import u8\n\n\ndef read(data):\n    return np.frombuffer(data, '<u4')\n"
    )
    assert _ways_to_read(Module(path, "plan/bad.py")) == {"struct", "tailrace.wal.unaligned", "frombuffer"}
    path.write_text("def read(data):\n    return int.from_bytes(data[:4]), np.frombuffer(data, np.uint8), data.view('<u4')\n")
    assert _ways_to_read(Module(path, "plan/bad.py")) == {"from_bytes", "view"}
    for line in ("a.major >= FIRST", "16 <= major < 18", "major == 15", "major in (14, 15)", "max(major, 15)"):
        path.write_text(f"def read(a, major):\n    return {line}\n")
        assert _majors_by_number(Module(path, "plan/bad.py")) == {"compares a major"}
    for line in ("def read(major=18): ...", "def read(*, major: int = 18): ...", "major: int = 18", "self.major = 18"):
        path.write_text(line)
        assert _majors_by_number(Module(path, "plan/bad.py")) == {"has a number for a major"}
    path.write_text("LATEST = {14: 2, 15: 3, 16: 4}\n")
    assert _majors_by_number(Module(path, "plan/bad.py")) == {"has a table by major"}
    path.write_text(
        "_TEXT, width = 25, 23\n"
        "def of(pg_type):\n    return pg_type.oid in (16, 1184) or {oids.INT4: 1, 20: 0x4A2, 17.0: 2}[pg_type.oid] == 1000\n"
    )
    assert _bare_oids(Module(path, "plan/bad.py")) == {25, 16, 1184, 20}
    path.write_text("_NAME_BYTES = 63\nBEGIN = datetime(2000, 1, 1, tzinfo=UTC)\n")
    assert _constants_of_postgres(Module(path, "plan/bad.py")) == {"NAMEDATALEN", "PostgreSQL's epoch"}


def test_modules_are_short() -> None:
    long = {module.name for module in MODULES if len(module.text.splitlines()) > LONGEST_MODULE}
    assert set(LONG_MODULES) <= long, "no longer long"
    judge({f"{name} has too many lines" for name in long - set(LONG_MODULES)}, " has too many lines")


def test_modules_say_what_they_are_for() -> None:
    assert [module.name for module in MODULES if module.text.strip() and not ast.get_docstring(module.tree)] == []


def test_names_are_nouns_of_the_field() -> None:
    assert [module.name for module in MODULES if BANNED_NAMES & set(module.name.removesuffix(".py").split("/"))] == []


def test_a_class_name_stands_in_one_module() -> None:
    where: dict[str, set[str]] = {}
    for module in MODULES:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, set()).add(module.name)
    assert {name: modules for name, modules in where.items() if len(modules) > 1 and name not in STAND_IN_SEVERAL_MODULES} == {}
    assert [name for name in STAND_IN_SEVERAL_MODULES if len(where.get(name, ())) < 2] == []


def test_no_module_is_dead() -> None:
    everybody = [*MODULES, Module(SOURCES / "pyspark_tailrace/__init__.py", "pyspark_tailrace")]
    wanted = {name.removeprefix("tailrace.").replace(".", "/") for module in everybody for name in module.imported()}
    with_code = [module for module in INSIDE if module.tree.body[1:]]  # and not only words about what a folder holds
    names = {module.name.removesuffix(".py").removesuffix("/__init__") for module in with_code}
    assert names - wanted - ENTRY_POINTS - BY_NAME == set()


def test_every_room_is_compared_with_postgres() -> None:
    """Or said to have nothing there."""
    text = (ROOT / "docs/postgres_files.md").read_text()
    rooms = {module.stage for module in INSIDE if "/" in module.name}
    assert [room for room in sorted(rooms) if f"`{room}/" not in text] == []


DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_files_that_exist(document: Path) -> None:
    named = set(re.findall(r"`((?:src|tests|tools|docs|benchmarks)/[\w./-]+\.\w+)", document.read_text()))
    inside = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)\b", document.read_text())
    named |= {f"src/tailrace/{name}" for name in inside if not name.startswith(("src/", "tests/", "tools/", "benchmarks/"))}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_index_format_is_described() -> None:
    described = (ROOT / "docs/index_format.md").read_text()
    parts = (Index, Xids, Files, KeptRecords, Ends)
    names = [field.name for part in parts for field in fields(part)]
    assert [name for name in names if f"`{name}`" not in described] == []
    assert f"`format` (now {FORMAT_VERSION})" in described


def test_the_lock_is_pinned_hashed_and_names_no_registry() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    packages = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert packages
    assert [line for line in packages if not re.match(r"[\w.-]+==[\w.]+ \\$", line)] == []
    assert [line for line in lines if "://" in line or "--index" in line or "--find" in line] == []


def test_make_says_what_there_is() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    assert targets == set(re.findall(r"^([a-z-]+):.* ## ", makefile, re.MULTILINE))


def test_every_test_of_the_matrix_has_a_case_before_a_change_lands(request: pytest.FixtureRequest) -> None:
    """Of those that were collected in this run. PostgreSQL's own suites take hours."""
    assert {test.partition("/")[2] for test, cases in request.config.stash[MATRIX].items() if not cases} <= ONLY_IN_THE_MARATHON
