"""Output plugins written per change: the manual's callbacks (Logical Decoding, "Output Plugin Callbacks").

from tailrace.plugins.callbacks import Change, Context, Plugin
"""

from tailrace.plugins.callbacks.change import Change
from tailrace.plugins.callbacks.context import Context, OutputOptions
from tailrace.plugins.callbacks.plugin import Plugin

__all__ = ["Change", "Context", "OutputOptions", "Plugin"]
