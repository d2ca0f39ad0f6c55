"""Record golden cases on real servers: `python tests/record_cases.py [--majors 15,16,18] [--stories ddl,toast]`.

In: `tests/stories/*.sql`. Out: `tests/cases/<story>/<major>/{with_slot,no_slot}.tar.xz`, `tests/cases/_template/<major>.tar.xz`;
:mod:`support.cases` says what is in them. Every story begins on a copy of one stopped cluster per major, the template, whose
last checkpoint opens a fresh segment: WAL before it is not kept. The story is told three times: twice with a slot, which must
decode to the same (else the story is not deterministic, and is refused), and once without one; a story of one cluster once, with a slot.

The template cluster itself stays in `.cache/cases/<major>`. Where it is gone, only all stories of a major can be recorded
together, since the recorded ones would not fit a new one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path

from support.cases import CASES, DBNAME, case_path, make_delta, read_archive, template_path, write_archive
from support.live import Slot, describe
from support.normalise import normalise
from support.segments import forget_other_segments, redo, segments
from support.servers import Server
from support.stories import STORIES, is_of_one_cluster, parse, read_story, stories, tell

MAJORS = (15, 16, 18)
SETTINGS = {"wal_recycle": "off", "wal_init_zero": "on", "bgwriter_delay": "10s"}
CLUSTERS = Path(__file__).parents[1] / ".cache" / "cases"
CATALOGS = (
    *("pg_class", "pg_attribute", "pg_type", "pg_namespace", "pg_index", "pg_enum", "pg_range", "pg_inherits", "pg_attrdef"),
    *("pg_publication", "pg_publication_rel", "pg_publication_namespace", "pg_partitioned_table"),
    *("pg_database", "pg_tablespace", "pg_replication_origin", "pg_authid", "pg_collation", "pg_ts_config", "pg_ts_dict"),
)
FILES_OF_CATALOGS = """
    SELECT pg_relation_filepath(c.oid) FROM pg_class c
    WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relname = ANY (%(catalogs)s)
       OR c.oid IN (SELECT reltoastrelid FROM pg_class
                    WHERE relnamespace = 'pg_catalog'::regnamespace AND relname = ANY (%(catalogs)s))
    ORDER BY 1
"""


class NotDeterministic(AssertionError):
    """A story came out differently when told again."""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    for major in options.majors:
        cluster = _template_cluster(major, everything=set(options.stories) >= set(stories()))
        for story in options.stories:
            started = time.monotonic()
            sizes = record(story, major, cluster)
            shown = ", ".join(f"{variant} {size / 1024:.0f} kB" for variant, size in sizes.items())
            print(f"{major} {story}: {shown} ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


def record(story: str, major: int, cluster: Path) -> dict[str, int]:
    """Tell the story with and without a slot (that of one cluster: with one), and write down both; the sizes of the archives."""
    template = read_archive(template_path(major))
    members, expected = _tell(story, major, cluster, template, with_slot=True)
    recorded = {"with_slot": members | {"expected.txt": expected.encode()}}
    if not is_of_one_cluster(story):
        _, again = _tell(story, major, cluster, template, with_slot=True)
        if normalise(expected) != normalise(again):
            raise NotDeterministic(f"{story} on {major}")
        without, _ = _tell(story, major, cluster, template, with_slot=False)
        recorded["no_slot"] = without | {"expected.txt": normalise(expected).encode()}
    for variant, archive in recorded.items():
        write_archive(case_path(story, major, variant), archive)
    return {variant: case_path(story, major, variant).stat().st_size for variant in recorded}


def _tell(story: str, major: int, cluster: Path, template: dict[str, bytes], *, with_slot: bool) -> tuple[dict[str, bytes], str]:
    """A copy of the template lives through the story: the members of its archive, and what the slot gave."""
    with Server(major, SETTINGS, dbname=DBNAME, data=cluster) as server:
        slot = Slot.on(server) if with_slot else None
        start_lsn = slot.start_lsn if slot else server.flush_lsn()
        tell(read_story(story), server)
        end_lsn = server.flush_lsn()
        expected = slot.get() if slot else ""
        names = catalog_files(server)
        meta = {
            **describe(server),
            "story": story,
            "variant": "with_slot" if with_slot else "no_slot",
            "start_lsn": start_lsn,
            "end_lsn": end_lsn,
        }
        server.stop()
        after = read_files(server.data_dir, [*names, *state_files(server.data_dir)])
        since, until = redo(template["global/pg_control"]), redo(after["global/pg_control"])
        wal = {f"pg_wal/{path.name}": path.read_bytes() for path in segments(server.wal_dir, since=since, until=until)}
    meta["removed"] = sorted(set(template) - set(after))
    return {**make_delta(template, after), **wal, "meta.json": json.dumps(meta, indent=1).encode()}, expected


# -- the template ----------------------------------------------------------------------------------------------------------------


def _template_cluster(major: int, *, everything: bool) -> Path:
    cluster = CLUSTERS / str(major)
    if cluster.exists() and template_path(major).exists():
        return cluster
    if not everything and any(CASES.glob(f"*/{major}/*.tar.xz")):
        raise SystemExit(f"the cluster {cluster} is gone, and a new one would not fit the recorded cases: record all stories")
    shutil.rmtree(cluster, ignore_errors=True)
    CLUSTERS.mkdir(parents=True, exist_ok=True)
    with Server(major, SETTINGS, dbname=DBNAME) as server:
        tell(list(parse((STORIES / "_template.sql").read_text())), server)
        server.sql("VACUUM FREEZE")
        names = catalog_files(server)
        server.stop()
        forget_other_segments(server.data_dir)
        server.start()
        server.switch_wal()
        server.checkpoint()
        server.stop()
        write_archive(template_path(major), read_files(server.data_dir, [*names, *state_files(server.data_dir)]))
        server.copy_to(cluster)
    return cluster


# -- files -----------------------------------------------------------------------------------------------------------------------


def catalog_files(server: Server) -> list[str]:
    """Main forks of the catalogs that decoding reads, and the maps that say where the mapped ones are."""
    found = [str(name) for (name,) in server.sql(FILES_OF_CATALOGS, {"catalogs": list(CATALOGS)})]
    databases = {str(Path(name).parent) for name in found}
    return [*found, *(f"{directory}/pg_filenode.map" for directory in sorted(databases))]


def state_files(data_dir: Path) -> list[str]:
    kept = [*data_dir.glob("pg_xact/*"), *data_dir.glob("pg_replslot/*/state")]
    return ["PG_VERSION", "global/pg_control", *(str(path.relative_to(data_dir)) for path in sorted(kept))]


def read_files(data_dir: Path, names: list[str]) -> dict[str, bytes]:
    return {name: (data_dir / name).read_bytes() for name in names}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Record golden cases on real servers.")
    parser.add_argument("--majors", type=lambda text: [int(major) for major in text.split(",")], default=list(MAJORS))
    parser.add_argument("--stories", type=lambda text: text.split(","), default=stories())
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
