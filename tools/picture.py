"""Draw docs/demo.svg: the closing screen of the demo, as it was when this was run. `python tools/picture.py`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from tailrace.cli.choice import On
from tailrace.cli.engine import runner_for
from tailrace.demo.shop import run_demo

PICTURE = Path(__file__).parents[1] / "docs" / "demo.svg"


def main() -> int:
    screen = Console(record=True, width=112, file=io.StringIO(), force_terminal=False, color_system="truecolor")
    status = run_demo(start=lambda: runner_for(On.SPARK, 0, lambda why: None), console=screen)
    screen.save_svg(str(PICTURE), title="make demo")
    return status


if __name__ == "__main__":
    sys.exit(main())
