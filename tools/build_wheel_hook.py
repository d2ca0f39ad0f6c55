"""What hatchling runs while it builds a wheel: kernels are compiled for x86-64-v3 and go along (`tailrace.kernels.COMPILED`).

They fit the Python that builds, the Numba that it has, and x86-64; everywhere else kernels compile when they are first used. Elsewhere than on x86-64
there is nothing to bring along. HATCH_BUILD_NO_HOOKS=true builds without.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):  # type: ignore[type-arg]
    """The folder that the wheel takes in, and its tag."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or platform.machine().lower() not in ("x86_64", "amd64"):
            return
        self._folder = tempfile.TemporaryDirectory()
        subprocess.run(
            [sys.executable, Path(self.root) / "tools/compile_kernels.py", self._folder.name], check=True, stdout=sys.stderr
        )
        build_data["force_include"][self._folder.name] = "tailrace/_compiled"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
