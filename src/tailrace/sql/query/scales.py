"""Digits behind the point: PostgreSQL gives each number its own, the engine all of a column those of the longest. Columns where that could show are
refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.sql.grammar import ast
from tailrace.sql.query.allowed import refused
from tailrace.sql.query.expression_types import ResultColumn
from tailrace.types import oids


def _scale(node: Any) -> int | None:
    """Digits behind the point of a constant; None for what is none, or is NULL."""
    if not isinstance(node, ast.A_Const) or node.isnull or not isinstance(node.val, ast.Float | ast.Integer):
        return None
    return len(str(getattr(node.val, "fval", "")).partition(".")[2])


def check_scales(nodes: Sequence[Any]) -> None:
    """Raise UsageError (0A000) for numbers that the engine would give as many digits behind the point, each as the longest of them."""
    scales = {scale for scale in map(_scale, nodes) if scale is not None}
    if len(scales) > 1 or (scales > {0} and any(_scale(each) is None and not _is_null(each) for each in nodes)):
        raise refused("numbers of different scales in one column")


def _is_null(node: Any) -> bool:
    return isinstance(node, ast.A_Const) and bool(node.isnull)


def check_alike(left: Sequence[ResultColumn], right: Sequence[ResultColumn]) -> None:
    """The same for both sides of a UNION."""
    if any(oids.NUMERIC in (one.type, other.type) for one, other in zip(left, right, strict=False)):
        raise refused("numeric in UNION, INTERSECT, EXCEPT")
