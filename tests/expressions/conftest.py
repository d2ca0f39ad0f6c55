"""Lets these tests import what lies beside them (import mode importlib adds no paths)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
