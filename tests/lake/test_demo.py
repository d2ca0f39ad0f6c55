"""The demo, small: it succeeds, says so, and leaves nothing behind; and it does not succeed when a table differs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tailrace.demo import shop

pytestmark = pytest.mark.postgres


def test_it_runs_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)  # the server's user must get here
    assert shop.run_demo(transactions=40) == 0
    said = capsys.readouterr().out
    assert "table public.orders: INSERT" in said
    assert "✗" not in said
    assert said.count("✓") == 7
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().children() == []


def test_it_fails_when_a_table_differs(tmp_path, monkeypatch, capsys):
    home = Path(tempfile.mkdtemp(prefix="tailrace-demo-test-"))
    compare = shop.compare
    monkeypatch.setattr(shop, "compare", lambda *given: replace(compare(*given), equal=given[1] != "orders"))
    assert shop.run_demo(home, transactions=10) == 1
    assert "✗ differs" in capsys.readouterr().out
    assert (home / "lake" / "public.orders" / "_delta_log").is_dir()
    shop.shutil.rmtree(home)
