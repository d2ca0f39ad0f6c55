"""The process of a command line: `tailrace`, and `python -m tailrace`. Whoever profiles calls `tailrace.cli.main`, which returns."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy starts threads for linear algebra, which nobody does here, and they take 0.1 s of CPU

from tailrace.cli import main  # noqa: E402 - imports NumPy
from tailrace.cli.ending import leave  # noqa: E402


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
