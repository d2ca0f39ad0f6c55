"""Texts, bytea and bit strings."""
