"""Tell every story to a live server of every major, with and without a slot, and write the table of docs/fidelity.md: `python tests/fidelity.py`."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

import _pytest.outcomes

from oracle.test_stories import compare, prepared_cluster
from support.stories import STORIES, is_of_one_cluster, stories
from tailrace.majors import MAJORS

PAGE = Path(__file__).parents[1] / "docs" / "fidelity.md"
BEGIN, END = "<!-- stories: made by tests/fidelity.py -->", "<!-- end of stories -->"


def main() -> int:
    cells: dict[tuple[str, int], str] = {}
    for major in MAJORS:
        home = Path(tempfile.mkdtemp(prefix="tailrace-fidelity-"))
        try:
            before = prepared_cluster(major, home)
            for story in stories(major):
                cells[story, major] = _told(story, major, before, home)
                print(f"PostgreSQL {major}, {story}: {cells[story, major]}", flush=True)
        finally:
            shutil.rmtree(home)
    page = PAGE.read_text()
    start, stop = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:start] + "\n" + _table(cells) + page[stop:])
    return 0 if all(cell.isdigit() for cell in cells.values()) else 1


def _told(story: str, major: int, before: Path, home: Path) -> str:
    """How many lines were compared, all equal; or that they differ."""
    variants = (True,) if is_of_one_cluster(story) else (True, False)
    try:
        return str(sum(compare(story, major, before, home / "case", slot=slot) for slot in variants))
    except (Exception, _pytest.outcomes.Failed) as error:
        print(error)
        return "**differs**"


def _table(cells: dict[tuple[str, int], str]) -> str:
    head = f"| story | of what | {' | '.join(map(str, MAJORS))} |\n|---|---|{'---:|' * len(MAJORS)}\n"
    rows = [
        f"| {story} | {_of_what(story)} | {' | '.join(cells.get((story, major), '–') for major in MAJORS)} |\n"
        for story in stories()
    ]
    return head + "".join(rows)


def _of_what(story: str) -> str:
    """The first sentence of its first comment."""
    said = re.match(r"((?:--.*\n)+)", (STORIES / f"{story}.sql").read_text())
    words = " ".join(
        line.removeprefix("--").strip() for line in (said[1] if said else "").splitlines() if "story " not in line[:9]
    )
    return re.split(r"(?<=[.:])\s", words)[0].rstrip(".:")


if __name__ == "__main__":
    sys.exit(main())
