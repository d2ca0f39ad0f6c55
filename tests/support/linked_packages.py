"""Environments made of links to what this one has, so that they cost no network and hardly any time."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path


def link(found: Distribution, site: Path) -> None:
    """Make what a distribution installed be in another site-packages: its packages, modules and metadata. A folder of `..` would be a program,
    which nobody needs there."""
    for top in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
        target = Path(str(found.locate_file(top))).resolve()
        if not (site / top).exists():
            (site / top).symlink_to(target)
