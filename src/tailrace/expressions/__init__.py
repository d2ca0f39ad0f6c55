"""Expressions as PostgreSQL stores them, of row filters above all: read from its node trees, and evaluated over columns exactly as it does."""

from tailrace.expressions.node_tree import read_node_tree

__all__ = ["read_node_tree"]
