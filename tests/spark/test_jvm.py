"""Where Java comes from on a machine that has none: the wheel, behind a script that Spark's launcher can live with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "env")


def test_a_machine_without_java_gets_one(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(Path("/usr/bin") / name)
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": str(tools),
        "TMPDIR": str(tmp_path),
    }
    said = subprocess.run(
        [sys.executable, ROOT / "tools/java_home.py"], capture_output=True, text=True, check=True, env=bare, timeout=120
    )
    java = Path(said.stdout.strip()) / "bin" / "java"
    words = [java, "--add-modules=jdk.incubator.vector", "-version"]
    started = subprocess.run(words, capture_output=True, text=True, check=False, env=bare, timeout=120)
    assert (started.returncode, 'version "' in started.stderr) == (0, True), started.stderr
