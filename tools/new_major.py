"""Write the list of places in docs/new_major.md from what each module was compared with: `python tools/new_major.py`. A test
holds the page to what this prints. `python tools/new_major.py 19` prints instead what says nothing of that major yet.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from tailrace import majors
from tailrace.errors import UnsupportedWal
from tailrace.majors import Compared

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/new_major.md"
BEGIN, END = "<!-- places: made by tools/new_major.py -->\n", "<!-- end of places -->\n"
ORDER = ("wal", "catalog", "types", "expressions", "logicalproto", "plugins", "sql")


def main() -> None:
    if len(sys.argv) > 1:
        print("\n".join(complaints([int(sys.argv[1])])))
    else:
        PAGE.write_text(render())


def places() -> list[Compared]:
    """What the modules were compared with, in the order in which a new major is taught."""
    package = ROOT / "src/tailrace"
    paths = [path.relative_to(package) for path in package.rglob("*.py") if "\nCOMPARED = Compared(" in path.read_text()]
    ordered = sorted(paths, key=lambda path: ((*ORDER, path.parts[0]).index(path.parts[0]), path))
    names = [".".join(path.with_suffix("").parts) for path in ordered]
    return [import_module(f"tailrace.{name.removesuffix('.__init__')}").COMPARED for name in names]


def _file(place: Compared) -> str:
    return str(Path(str(sys.modules[place.module].__file__)).relative_to(ROOT))


def complaints(of: Iterable[int] = ()) -> list[str]:
    """What places say of majors that they know nothing of; of all that are supported, if none is named."""
    return [said for major in of or majors.MAJORS for place in places() if (said := _complaint(place, major))]


def _complaint(place: Compared, major: int) -> str:
    try:
        place.check(major)
    except UnsupportedWal as error:
        return f"{error.message}: {error.hint}"
    return ""


def render() -> str:
    """The whole page, with the list as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    rows = "".join(f"| `{_file(place)}` | {place.subject} | {place.upto} |\n" for place in places())
    return f"{before}{BEGIN}| file | compare it with | done up to |\n|---|---|---|\n{rows}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    main()
