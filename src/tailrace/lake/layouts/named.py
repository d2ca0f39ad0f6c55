"""The layouts by their names."""

from __future__ import annotations

from tailrace.errors import UsageError
from tailrace.lake.layouts.changes import ChangesLayout
from tailrace.lake.layouts.history import HistoryLayout
from tailrace.lake.layouts.layout import LakeLayout
from tailrace.lake.layouts.mirror import MirrorLayout

MIRROR: LakeLayout = MirrorLayout()
LAYOUTS: dict[str, LakeLayout] = {each.name: each for each in (MIRROR, ChangesLayout(), HistoryLayout())}


def layout_named(name: str) -> LakeLayout:
    """Raises UsageError if there is none of that name."""
    if name not in LAYOUTS:
        raise UsageError(f'unrecognized layout of a lake "{name}"', hint=f"There are {', '.join(LAYOUTS)}.", sqlstate="22023")
    return LAYOUTS[name]
