"""The page about messages has the table that the code has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from tailrace.logicalproto.message import MESSAGE_FORMATS, AnyMessage

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/messages.md"


def test_the_table_is_current() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import message_table; sys.stdout.write(message_table.render())"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert made == PAGE.read_text(), "run tools/message_table.py"
    assert len(re.findall(r"^\| [A-Z][A-Za-z ]+ \| `.` \|", made, re.MULTILINE)) == len(MESSAGE_FORMATS)


def test_every_message_has_a_format() -> None:
    assert set(MESSAGE_FORMATS) == set(get_args(AnyMessage))
    assert [
        each.name
        for each in MESSAGE_FORMATS.values()
        if {name for names, _ in each.fields for name in names.split("+")} - _slots(each.value)
    ] == []


def _slots(message: type) -> set[str]:
    return set(getattr(message, "__slots__"))  # noqa: B009 - mypy knows no class of messages
