"""Lets these tests import the recorded truth that lies beside them (import mode importlib adds no paths)."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# The first call of a kernel compiles it, which takes seconds.
settings.register_profile("kernels", deadline=None)
settings.load_profile("kernels")
