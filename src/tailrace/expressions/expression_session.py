"""What the meaning and the text of an expression depend on, beside the expression and its table.

In: nothing. Out: `ExpressionSession`, for the analysis and for `deparse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tailrace.dataclass import dataclass
from tailrace.expressions import tree
from tailrace.expressions.analysis.catalog import UserObjects
from tailrace.majors import NEWEST
from tailrace.types.style import TextStyle


@dataclass(frozen=True, slots=True)
class ExpressionSession:
    """The major; settings (search path, TimeZone); objects of the database; and what a Relation does not say of its columns: collations
    that differ from their types', and the expressions of virtual generated columns, by attribute number."""

    major: int = NEWEST
    style: TextStyle = field(default_factory=TextStyle)
    user: UserObjects = field(default_factory=UserObjects)
    collations: Mapping[int, int] = field(default_factory=dict)
    generated: Mapping[int, tree.Expression] = field(default_factory=dict)
