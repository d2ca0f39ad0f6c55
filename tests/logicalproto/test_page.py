"""The page about messages has the table that the code has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tailrace.logicalproto.message import FORMATS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/messages.md"


def test_the_table_is_current() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import message_table; sys.stdout.write(message_table.render())"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert made == PAGE.read_text(), "run tools/message_table.py"
    assert len(re.findall(r"^\| [A-Z][A-Za-z ]+ \| `.` \|", made, re.MULTILINE)) == len(FORMATS)
