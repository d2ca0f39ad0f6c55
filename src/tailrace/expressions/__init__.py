"""Expressions as PostgreSQL stores them, of row filters above all: read from its node trees, and evaluated over columns exactly as it does."""
