"""Memory that streams have freed is given back once nothing was decoded for a while."""

from __future__ import annotations

import pytest

from tailrace.server.malloc import FreedMemory


def test_given_back_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = FreedMemory()
    assert not freed.is_idle
    freed.decoded(2 * FreedMemory.WORTH)
    assert not freed.is_idle  # it may be needed in a moment
    monkeypatch.setattr(FreedMemory, "AFTER", -1.0)
    assert freed.is_idle
    freed.give_back()
    assert not freed.is_idle
    freed.decoded(FreedMemory.WORTH // 2)
    assert not freed.is_idle  # not worth it
