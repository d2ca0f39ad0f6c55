"""The documents are true: their code blocks run, and what is generated is current."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cases import DBNAME
from support.quick_commands import quick_commands
from support.servers import Server

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
RARELY_TELLING = frozenset({"read_as_text", "past", "query_as_dataframe", "look_at_the_log", "work_from_an_archive"})
"""What `make marathon` runs."""
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOP = """
CREATE TABLE orders (id int PRIMARY KEY, customer text, status text, total numeric(10,2), note text);
INSERT INTO orders SELECT g, 'customer ' || g, 'new', g * 1.5, repeat(md5(g::text), 100) FROM generate_series(1, 50) g;
UPDATE orders SET status = 'paid' WHERE id % 2 = 0;
ALTER TABLE orders ADD placed timestamptz DEFAULT '2026-01-01 12:00+00';
DELETE FROM orders WHERE id % 10 = 0;
UPDATE orders SET status = 'sent', total = total + 1 WHERE id < 20;
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What the guides call it -> where it is, and an LSN: a stopped server's data directory, and how it was before."""
    with Server(18, dbname=DBNAME, test_decoding=False) as server, Server(18, dbname=DBNAME, test_decoding=False) as live:
        live.say(*SHOP.strip().split(";\n"))
        server.stop()
        home = tmp_path_factory.mktemp("backups")
        older = server.copy_to(home / "older")
        server.start()
        lsn = server.flush_lsn()
        first, *others = SHOP.strip().split(";\n")
        server.say(first)
        made = server.flush_lsn()
        server.say(*others)
        server.stop()
        data = server.move_to(home / "app")
        yield {
            "/backups/older": str(older),
            "/backups/app": str(data),
            "/archive/app": str(data / "pg_wal"),
            "host=db user=tailrace": live.dsn(),
            "0/3000060": lsn,
            "0/1904480": made,
        }


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with quick_commands(tmp_path_factory.mktemp("bin")) as path:
        yield path


@pytest.mark.postgres
@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.marathon] if page.stem in RARELY_TELLING else [])
        for page in (ROOT / "README.md", *GUIDES)
    ],
)
def test_code_blocks_run(
    page: Path, places: dict[str, str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # Spark starts first: Java and its Python workers stay where they were started, and this folder goes.
    names = {"spark": request.getfixturevalue("spark")}
    monkeypatch.chdir(tmp_path)
    ran = 0
    for language, code in BLOCK.findall(page.read_text()):
        if re.search(r"^(make|pip) ", code, re.MULTILINE):
            continue
        here = re.sub("|".join(places), lambda met: places[met[0]], code)
        ran += 1
        if language == "python":
            exec(compile(here, f"{page.name}", "exec"), names)
        else:
            _shell(here, path)
    assert ran


def _shell(code: str, path: str) -> None:
    environment = {**os.environ, "PATH": path}
    before = set(Path().iterdir())
    done = subprocess.run(["bash", "-euc", code], env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    assert done.stdout or set(Path().iterdir()) - before, f"{code} printed nothing, and made no file"


def test_the_reference_is_current() -> None:
    made = _printed_by("reference")
    assert made == (ROOT / "docs/reference.md").read_text(), "run tools/reference.py"


def _printed_by(tool: str) -> str:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import {tool}; sys.stdout.write({tool}.render())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
