"""What the verbs import that do work, and what tests do: whoever imports this has it all."""

import deltalake
import psycopg
import pytest

import tailrace.cli.mirror
import tailrace.cli.serve
import tailrace.cli.slots
import tailrace.cli.verbs.mirror
import tailrace.cli.verbs.serve
import tailrace.cli.verbs.slot
import tailrace.lake.changelog
import tailrace.lake.mirror

__all__ = ["deltalake", "psycopg", "pytest", "tailrace"]
