"""Comparing tables of two places at one LSN, down to the rows that differ."""
