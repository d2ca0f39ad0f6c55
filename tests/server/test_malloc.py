"""Memory that a server has freed is given back once nothing was sent for a while."""

from __future__ import annotations

import numpy as np
import pytest

from tailrace.server.malloc import FreedMemory


def test_what_is_more_than_before_is_given_back_when_nothing_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = FreedMemory()
    held = np.ones(2 * FreedMemory.WORTH, np.uint8)
    assert not freed.is_idle  # it may be needed in a moment
    monkeypatch.setattr(FreedMemory, "AFTER", -1.0)
    assert freed.is_idle
    freed.give_back()
    assert held.all()
    assert not freed.is_idle  # that is in use
    del held
    more = np.ones(FreedMemory.WORTH // 2, np.uint8)
    assert more.all()
    assert not freed.is_idle  # not worth it
