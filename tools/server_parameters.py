"""Write src/tailrace/server/parameters.tsv from live servers of all majors: `PYTHONPATH=src:tests python tools/server_parameters.py`.

One line a parameter that `tailrace serve` has, and a group of majors that say the same of it: what pg_settings says that is neither a value nor where
it came from. `\\N` is NULL.
"""

from __future__ import annotations

from pathlib import Path

from support.servers import Server
from tailrace.majors import MAJORS
from tailrace.server.parameter_facts import FIELDS
from tailrace.server.session_parameters import KNOWN

PATH = Path(__file__).parents[1] / "src/tailrace/server/parameters.tsv"
OF_THE_MINOR = frozenset({"server_version", "server_version_num"})


def main() -> None:
    found: dict[tuple[str, ...], list[int]] = {}
    for major in MAJORS:
        with Server(major) as server, server.connect() as connection:
            columns = ", ".join(f"{each}::text" for each in FIELDS)
            for row in connection.execute(f"SELECT {columns} FROM pg_settings".encode()).fetchall():
                texts = ["\\N" if each is None else str(each) for each in row]
                if texts[0] in OF_THE_MINOR:
                    texts[7:10] = ["\\N"] * 3
                if texts[0] in KNOWN:
                    found.setdefault(tuple(texts), []).append(major)
    lines = ["\t".join(("majors", *FIELDS))]
    lines += sorted("\t".join((f"{majors[0]}-{majors[-1]}", *texts)) for texts, majors in found.items())
    PATH.write_text("".join(f"{line}\n" for line in [lines[0], *sorted(lines[1:], key=lambda line: line.split("\t")[1:])]))


if __name__ == "__main__":
    main()
