"""The stages put together, in the order in which `open_pipeline` runs them: open a source, scan its log, rebuild its catalogs, plan, decode. This is
the door; each step is a file.

Here the shore meets the stages: files are found and read, work is handed to a `Runner` (threads of this process, or Spark), and
the pure stages decide.
"""

from tailrace.pipeline.capture import capture
from tailrace.pipeline.open_log import open_feed, open_pipeline, open_windows
from tailrace.pipeline.pipeline import Pipeline
from tailrace.pipeline.runner import LocalRunner, Runner
from tailrace.pipeline.scanning import Scanning, count_log, scan_log
from tailrace.sources.source import Source

__all__ = [
    "LocalRunner", "Pipeline", "Runner", "Scanning", "Source", "capture", "count_log", "open_feed", "open_pipeline", "open_windows", "scan_log",
]  # fmt: skip
