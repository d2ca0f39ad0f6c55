"""Expressions as PostgreSQL stores them, of row filters above all: node trees are read and written, and evaluated over columns
exactly as the server evaluates them."""

from tailrace.expressions.node_tree import read_node_tree, write_node_tree

__all__ = ["read_node_tree", "write_node_tree"]
