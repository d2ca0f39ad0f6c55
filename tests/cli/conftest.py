"""The command line, run in this process."""

from __future__ import annotations

import pytest

from support.command import Run, run_in


@pytest.fixture
def tailrace(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return run_in(monkeypatch, capfd)
