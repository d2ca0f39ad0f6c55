"""When something happened, as the log says it (microseconds since PG_EPOCH) -> as timestamptz prints it, in ISO whatever DateStyle is
(`timestamptz_to_str`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tailrace.model import PgType
from tailrace.types import oids
from tailrace.types.style import TextStyle
from tailrace.types.times.text import format_timestamps
from tailrace.types.values import Texts, Values

_TIMESTAMPTZ = PgType(oids.TIMESTAMPTZ, "pg_catalog", "timestamptz", "timestamp with time zone", "b", 8, 8)


def format_moments(microseconds: NDArray[np.int64], style: TextStyle) -> Texts:
    """A text each, in the time zone of `style`."""
    return format_timestamps(Values.of_numbers(microseconds), _TIMESTAMPTZ, replace(style, date_style="ISO, MDY"))
