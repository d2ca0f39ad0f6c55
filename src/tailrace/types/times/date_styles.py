"""Dates in the older styles: SQL, Postgres and German, made from the ISO texts that `text` prints.

Rarely set, so row by row. Where ISO shows the offset of a zone, these show its abbreviation of that moment; infinities look
the same in all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from tailrace.types.style import TextStyle
from tailrace.types.values import Texts

_ISO = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?(?:[+-][\d:]+)?( BC)?")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST_ZONE = 10
"""MAXTZLEN (`utils/datetime.h`)."""


def in_date_style(texts: Texts, style: TextStyle, zones: Sequence[str] = ()) -> Texts:
    """ISO texts in the style's form; `zones` has the abbreviation of each row's offset, or nothing."""
    rows = texts.to_list()
    return Texts.of([_in_style(text, style, zones[row] if zones else None) for row, text in enumerate(rows)])


def _in_style(text: str, style: TextStyle, zone: str | None) -> str:
    match = _ISO.fullmatch(text)
    if match is None:
        return text
    year, month, day, clock, era = match.groups(default="")
    form, zone = style.date_form, "" if zone is None else f" {zone[:_LONGEST_ZONE]}"  # a zone may have an empty name
    if form == "Postgres" and clock:
        counted = 1 - int(year) if era else int(year)
        # The calendar repeats after 400 years, days of the week included.
        weekday = _DAYS[date(2000 + counted % 400, int(month), int(day)).weekday()]
        named = _MONTHS[int(month) - 1]
        return f"{weekday} {f'{day} {named}' if style.day_first else f'{named} {day}'} {clock} {year}{zone}{era}"
    separator = {"SQL": "/", "German": ".", "Postgres": "-"}[form]
    first, second = (day, month) if style.day_first or form == "German" else (month, day)
    return separator.join((first, second, year)) + (f" {clock}" if clock else "") + zone + era
