"""A run that is interrupted at a call of ours, as by ^C."""

from __future__ import annotations

from typing import Any

import pytest


def interrupt_after(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, calls: int) -> None:
    """`owner.name` works so many times, and is then interrupted before it does anything."""
    real, left = getattr(owner, name), calls

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        return real(*arguments, **more)

    monkeypatch.setattr(owner, name, interrupted)
