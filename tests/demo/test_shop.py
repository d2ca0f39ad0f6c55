"""The demo, small: it succeeds, says so, and leaves nothing behind; and it does not succeed when a table differs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tailrace.demo import shop
from tailrace.errors import PeerError, UsageError

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def _no_process_is_left():
    """But those that were there before: the Java of a session that other tests share."""
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


@pytest.mark.marathon  # `make demo` runs it whole before a change lands
def test_it_runs_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _let_the_server_in(tmp_path)
    assert shop.run_demo(transactions=40) == 0
    said = capsys.readouterr().out
    assert "table public.orders: INSERT" in said
    assert "✗" not in said
    assert said.count("✓") == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_it_fails_when_a_table_differs(tmp_path, monkeypatch, capsys):
    home = Path(tempfile.mkdtemp(prefix="tailrace-demo-test-"))
    compare = shop.compare
    monkeypatch.setattr(shop, "compare", lambda *given: replace(compare(*given), equal=given[1] != "orders"))
    assert shop.run_demo(home, transactions=10) == 1
    assert "✗ differs" in capsys.readouterr().out
    assert (home / "lake" / "public.orders" / "_delta_log").is_dir()
    shop.shutil.rmtree(home)


def test_it_ends_at_once_where_nothing_can_carry_the_stages(tmp_path, monkeypatch):
    """As without a Java: the shop does not go on for what nobody will decode."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _let_the_server_in(tmp_path)

    def start():
        raise UsageError("Java 17 or newer is needed")

    with pytest.raises(UsageError, match="Java 17"):
        shop.run_demo(start=start, transactions=100_000)
    assert list(tmp_path.iterdir()) == []


def test_it_ends_with_its_server(tmp_path, monkeypatch):
    """The server is killed while the other side warms up."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _let_the_server_in(tmp_path)
    first_steps = shop._warm_decode

    def kill_and_warm(opening, runner):
        for child in psutil.Process().children():
            if child.name() == "postgres":
                child.kill()
        first_steps(opening, runner)

    monkeypatch.setattr(shop, "_warm_decode", kill_and_warm)
    with pytest.raises(PeerError, match="PostgreSQL went away"):
        shop.run_demo(transactions=100_000)
    assert list(tmp_path.iterdir()) == []


def _let_the_server_in(folder):
    """The server's user must get here."""
    for each in (folder, *list(folder.parents)[:3]):  # pytest's own folders, one of them that of a worker
        each.chmod(0o755)
