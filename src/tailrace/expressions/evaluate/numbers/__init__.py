"""Integers, floating point, numeric and money."""
