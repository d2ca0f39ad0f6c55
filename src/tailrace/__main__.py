"""The process of a command line: `tailrace`, and `python -m tailrace`. Whoever profiles calls `tailrace.cli.main`, which returns."""

from __future__ import annotations

import os

# NumPy starts threads for linear algebra, which nobody does here, and they take 0.1 s of CPU.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tailrace.cli import main
from tailrace.cli.ending import leave


def run() -> None:
    """Run the command line, and end the process with its status."""
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            leave(ended.code)
        raise
    leave(0)


if __name__ == "__main__":
    run()
