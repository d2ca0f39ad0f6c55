"""What Spark's planning processes import: each would pay for more than it needs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numba", "llvmlite", "deltalake", "tailrace.pipeline", "tailrace.decode")


def test_a_process_that_only_plans_imports_no_kernels() -> None:
    code = f"import sys, pyspark_tailrace, tailrace.spark.jobs; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_promised_names_are_there() -> None:
    code = "import tailrace; assert all(hasattr(tailrace, name) for name in tailrace.__all__); print(tailrace.open is tailrace.open_pipeline)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
