"""PostgreSQL's whole regression suite: what test_decoding and pgoutput of the server say of it, and tailrace of the same log."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.regression_suite import compare

pytestmark = [pytest.mark.marathon, pytest.mark.matrix]
LEAST_LINES = 100_000


@pytest.mark.parametrize("major", [14, 15, 16, 17, 18])
def test_the_regression_suite_is_told_as_the_server_tells_it(
    major: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = compare(major, tmp_path, sys.executable)
    with capsys.disabled():
        print(f"\n{counts}")
    assert counts.test_decoding.shown + counts.pgoutput.shown == []
    assert counts.test_decoding.formatter > LEAST_LINES
    assert counts.pgoutput.lines > LEAST_LINES
