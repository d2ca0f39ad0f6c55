"""PostgreSQL's own test scripts: from Debian's source package, into the folder of the fetched builds. Nothing of them is in this repository.

In: a major. Out: the folder `src/test` of its source, or of the nearest major's that the distribution has: its scripts are told to servers of other
majors as well, which refuse what they do not know. apt brings the package without being root, by a sources list made of the machine's own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from support.builds import VERSIONS, MissingBuild, cache

_LISTS = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
_WANTED = ("/src/test/regress/", "/src/test/subscription/", "/src/test/perl/")


def test_scripts(major: int) -> tuple[Path, int]:
    """The folder, and whose scripts they are. Raises MissingBuild, saying why, if there are none."""
    nearest = sorted(VERSIONS, key=lambda other: (abs(other - major), other))
    for other in nearest:
        if (home := cache() / f"source-{other}").exists():
            return home, other
    if shutil.which("apt-get") is None:
        raise MissingBuild("apt-get is missing: PostgreSQL's test scripts come from Debian's source package")
    said = ""
    for other in nearest:
        said = _fetch(other, cache() / f"source-{other}")
        if not said:
            return cache() / f"source-{other}", other
    raise MissingBuild(f"no source package of PostgreSQL could be fetched: {said}")


def _fetch(major: int, home: Path) -> str:
    """Put the scripts there in one step; what went wrong, if something did."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-") as name:
        scratch = Path(name)
        for folder in ("lists/partial", "cache/archives/partial", "parts"):
            (scratch / folder).mkdir(parents=True)
        _write_source_lists(scratch / "parts")
        places = {
            "Etc::SourceList": "/dev/null",
            "Etc::SourceParts": scratch / "parts",
            "State::Lists": scratch / "lists",
            "Cache": scratch / "cache",
        }
        options = [word for key, value in places.items() for word in ("-o", f"Dir::{key}={value}")]
        _run(scratch, "apt-get", *options, "update")
        listed = _run(scratch, "apt-cache", *options, "madison", f"postgresql-{major}")
        versions = re.findall(r"\|\s*(\S+)\s*\|", listed.stdout)
        said = f"no postgresql-{major} among the sources"
        for version in versions:  # the newest may be gone from a mirror that lists it
            ran = _run(scratch, "apt-get", *options, "source", "--download-only", f"postgresql-{major}={version}")
            said = ran.stderr.strip()
            if tarballs := sorted(scratch.glob(f"postgresql-{major}_*.orig.tar.*")):
                _unpack(tarballs[-1], scratch / "unpacked", home)
                return ""
        return said


def _run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)


def _write_source_lists(parts: Path) -> None:
    """The machine's lists of packages, as lists of sources."""
    for place in _LISTS:
        for path in sorted(place.iterdir()) if place.is_dir() else [place] if place.exists() else []:
            if path.suffix == ".sources":
                text = re.sub(r"(?m)^Types:.*$", "Types: deb-src", path.read_text())
            elif path.suffix == ".list":
                text = re.sub(r"(?m)^deb\s", "deb-src ", path.read_text())
            else:
                continue
            (parts / path.name).write_text(text)


def _unpack(tarball: Path, scratch: Path, home: Path) -> None:
    with tarfile.open(tarball) as packed:
        packed.extractall(scratch, [each for each in packed if any(part in each.name for part in _WANTED)], filter="data")
    (found,) = scratch.glob("*/src/test")
    found.rename(home)
