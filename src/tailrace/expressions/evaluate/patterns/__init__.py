"""LIKE and regular expressions."""
