"""How far a query is, as Spark keeps it in the query's checkpoint, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import CorruptFile
from tailrace.model import Lsn
from tailrace.wal.log_fingerprint import LogFingerprint


@dataclass(frozen=True, slots=True)
class Offset:
    """All that commits before `lsn` has been given. `fingerprint` tells the log again that it was read from; older checkpoints have none."""

    lsn: Lsn
    fingerprint: LogFingerprint | None

    def written(self) -> dict[str, Any]:
        """As JSON's objects are."""
        return {"lsn": str(self.lsn), "stood": None if self.fingerprint is None else self.fingerprint.facts()}

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Offset:
        """Raises CorruptFile for what `written` does not give."""
        try:
            return cls(Lsn.parse(str(said["lsn"])), LogFingerprint.of(said.get("stood")))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFile(f"an offset of the query's checkpoint cannot be read: {error}", context=f"offset {said}") from error
