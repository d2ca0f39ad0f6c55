"""A table's folder where nothing can be written any more, as on a full disk."""

from __future__ import annotations

import errno
import hashlib
import resource
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.lake.files.data_files import DataFiles
from tailrace.storage.local_store import LocalStore

ROWS = 100_000


@pytest.mark.parametrize("room", [0, 100_000, 1_500_000])
@pytest.mark.filterwarnings("error")
def test_a_data_file(room: int, tmp_path: Path) -> None:
    """That is what is raised, and neither half a file nor one beside it stays."""
    rows = pa.table({"id": range(ROWS), "v": [hashlib.md5(b"%d" % each).hexdigest() for each in range(ROWS)]})
    files = DataFiles(LocalStore(tmp_path), rows.schema, "0" * 32)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            files.write(rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value.filename).startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert files.write(rows).size > room
