"""Write the table of messages in docs/messages.md from the code's own: `python tools/message_table.py`. A test holds the page to what this prints."""

from __future__ import annotations

from pathlib import Path

from tailrace.logicalproto.fields import KINDS
from tailrace.logicalproto.message import MESSAGE_FORMATS, MessageFormat

PAGE = Path(__file__).parents[1] / "docs" / "messages.md"
BEGIN, END = "<!-- messages: made by tools/message_table.py -->\n", "<!-- end of messages -->\n"


def main() -> None:
    PAGE.write_text(render())


def render() -> str:
    """The whole page, with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{_table()}{END}{rest.partition(END)[2]}"


def _table() -> str:
    rows = sorted(MESSAGE_FORMATS.values(), key=lambda each: each.since)
    lines = ["| message | byte | since | fields |", "|---|---|---|---|", *(f"| {' | '.join(_cells(each))} |" for each in rows)]
    return "".join(f"{line}\n" for line in lines)


def _cells(each: MessageFormat) -> tuple[str, str, str, str]:
    xid = "[`xid` Int32], " if each.carries_xid else ""
    fields = ", ".join(_field(*field) for field in each.fields) or "none"
    more = ", ".join(_field(*field) for field in each.in_parallel)
    return (
        f"{each.name.title()}",
        f"`{each.byte}`",
        str(each.since),
        f"{xid}{fields}{f'; if streaming is parallel {more}' if more else ''}",
    )


def _field(name: str, kind: str) -> str:
    return f"`{name.replace('+', '`, `')}` {KINDS[kind].called}"


if __name__ == "__main__":
    main()
