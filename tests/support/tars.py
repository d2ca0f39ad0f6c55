"""Tar archives as a server sends them in a base backup."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable


def tar_of(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Of these files, behind a folder and a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind in (("base", tarfile.DIRTYPE), ("pg_tblspc/16385", tarfile.SYMTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/somewhere" if kind == tarfile.SYMTYPE else ""
            tar.addfile(member)
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()
