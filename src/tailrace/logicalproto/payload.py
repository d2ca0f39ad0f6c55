"""A message that is being read: its bytes, and how far they are read. It imports nothing that takes time to load."""

from __future__ import annotations

from tailrace.errors import PeerError


class Payload:
    """A message's bytes. State: `at`, how far they are read."""

    __slots__ = ("at", "data", "name")

    def __init__(self, data: bytes, name: str = "") -> None:
        self.data = data
        self.name = name
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next bytes. Raises PeerError if there are fewer."""
        stop = self.at + count
        if count < 0 or stop > len(self.data):
            raise self.refused("insufficient data left in message")
        part = self.data[self.at : stop]
        self.at = stop
        return part

    def refused(self, message: str, at: int | None = None) -> PeerError:
        """The error that says so, of what was to be read at this offset."""
        what = f' of message type "{self.name}"' if self.name else ""
        return PeerError(message, context=f"offset {self.at if at is None else at}{what}")
