"""Expressions evaluated over columns in stored form, exactly as PostgreSQL does, or refused by name when they are compiled."""

from tailrace.expressions.evaluate.executor.row_filter import Filter, compile_filter
from tailrace.expressions.evaluate.fmgr.refusals import Refused
from tailrace.expressions.evaluate.fmgr.vectors import Facts

__all__ = ["Facts", "Filter", "Refused", "compile_filter"]
