"""The views of replication, and catalogs under a snapshot, as tables (`catalog/system_views.sql`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailrace.catalog.rows.layouts import layouts_of, tracked_columns
from tailrace.dataclass import dataclass
from tailrace.errors import TailraceError
from tailrace.model import Relation
from tailrace.replication.slot_location import SlotLocation
from tailrace.replication.slot_wal import status_of
from tailrace.replication.waiting import finish
from tailrace.slots.slot import Slot, WalStatus
from tailrace.sql.functions.outcome import table_of
from tailrace.sql.functions.signatures import Columns
from tailrace.sql.parameters import Parameters
from tailrace.sql.query.engine_function import EngineFunction
from tailrace.sql.query.system_functions import PREFIX, rows_type
from tailrace.sql.source_database import SourceDatabase
from tailrace.sql.sql_types import ARROW
from tailrace.sql.views.catalog_values import interval_text
from tailrace.sql.views.untracked_catalogs import SOURCE_QUERIES, UNREAD, built_in_rows, is_taken_for_empty, untracked_columns
from tailrace.sql.views.view_columns import SETTINGS_COLUMNS, catalog_columns, function_columns, views_of
from tailrace.types.times.calendar import UNIX_TO_POSTGRES_USECS

if TYPE_CHECKING:
    from tailrace.publications.database_snapshot import DatabaseSnapshot
    from tailrace.publications.describe import PublicationDescriber
    from tailrace.publications.publication import Publication
    from tailrace.sql.views.catalog_objects import CatalogObjects
    from tailrace.sql.views.catalog_tables import CatalogTables
    from tailrace.sql.views.publication_catalogs import PublicationCatalogs

_OURS = ("", "pg_catalog")
_ROWS_ARE_ELSEWHERE = (
    "The database has it, but rows of its tables and views are not here, only catalogs, slots and functions: "
    'pg_logical_slot_get_changes() gives changes of tables, and so does spark.read.format("tailrace").'
)


@dataclass
class Relations:
    """Those of one statement: each is read once, where the session's parameters ask for the catalogs, and under its search path."""

    database: SourceDatabase
    parameters: Parameters = field(default_factory=Parameters)

    def columns_of(self, schema: str, name: str) -> Columns | None:
        """None for what is not there; raises UsageError (0A000) for catalogs that are not tracked."""
        if schema not in _OURS or (name == "pg_settings" and self.database.settings_here is None):
            return None
        if name == "pg_settings":
            return SETTINGS_COLUMNS
        found = views_of(self.database.major).get(name)
        if found is not None:
            return found
        if name in tracked_columns(self.database.major):
            return catalog_columns(name, self.database.major)
        return untracked_columns(name, self.database.major)

    def untracked(self, name: str) -> frozenset[str]:
        """Columns that a catalog has, and that are not read."""
        if name in views_of(self.database.major) or name not in tracked_columns(self.database.major):
            return UNREAD.get(name, frozenset())
        known = {column for column, _ in catalog_columns(name, self.database.major)}
        return frozenset(layouts_of(self.database.major)[name].names) - known

    def hint_of(self, schema: str, name: str) -> str:
        """What is to be said of a relation whose rows are not here; empty if the database has none of this name."""
        try:
            here = self.here
            schemas = [schema] if schema else here.catalogs.search_path
            is_there = any(here.catalogs.history.relation_named(each, name, int(here.lsn)) for each in schemas)
        except TailraceError:  # without catalogs, it is not there
            return ""
        return _ROWS_ARE_ELSEWHERE if is_there else ""

    def table(self, name: str) -> pa.Table:
        """The relation's rows."""
        columns = self.columns_of("", name)
        assert columns is not None
        special = {
            "pg_replication_slots": self._slots, "pg_stat_replication_slots": self._slot_statistics,
            "pg_replication_origin_status": self._origins, "pg_stat_replication": self._senders,
            "pg_stat_activity": self._clients, "tailrace_synchronous_lsn": self._synchronous,
            "pg_publication": self._publications, "pg_publication_tables": self._publication_tables,
            "pg_publication_rel": self._published_relations, "pg_publication_namespace": self._published_schemas,
        }  # fmt: skip
        if name == "pg_settings" and self.database.settings_here is not None:
            return table_of(columns, [[row.get(column) for column, _ in columns] for row in self.database.settings_here()])
        if name in special:
            return table_of(columns, list(special[name]()))
        if name in tracked_columns(self.database.major):
            return self._catalogs.table(name)
        if name == "pg_roles":
            return self._roles(columns)
        if (query := SOURCE_QUERIES.get(name)) and self.parameters.as_of is None:
            rows = self.database.rows_at_source(query)
            if rows is not None:
                return table_of(columns, [list(row) for row in rows])
        if is_taken_for_empty(name):
            self.database.tell_untracked(name)
        return table_of(columns, list(built_in_rows(name)))

    # -- slots -----------------------------------------------------------------------------------------------------------------------

    def _slots(self) -> Iterator[list[Any]]:
        location = self.database.found
        for each in self.database.slots():
            assert location is not None
            status, slot = self._status(each, location)
            pid = location.active_pid(slot.name)
            reason = slot.invalidation_reason or None
            is_used = pid is not None and not slot.temporary  # one that is temporary is its session's, used or not
            since = None if is_used or not slot.inactive_since else slot.inactive_since
            values = {
                "slot_name": slot.name, "plugin": slot.plugin, "slot_type": "logical", "datoid": slot.database_oid, "database": slot.database,
                "temporary": slot.temporary, "active": pid is not None, "active_pid": pid, "xmin": None, "catalog_xmin": None,
                "restart_lsn": int(slot.restart_lsn), "confirmed_flush_lsn": int(slot.confirmed_flush_lsn),
                "wal_status": status.wal_status if status else None, "safe_wal_size": status.safe_wal_size if status else None,
                "two_phase": slot.two_phase, "two_phase_at": int(slot.two_phase_at) if slot.two_phase else None, "inactive_since": since,
                "conflicting": False, "invalidation_reason": reason, "failover": False, "synced": False,
            }  # fmt: skip
            yield [values[name] for name, _ in views_of(self.database.major)["pg_replication_slots"]]

    def _status(self, slot: Slot, location: SlotLocation) -> tuple[WalStatus | None, Slot]:
        try:
            status = finish(status_of(location, slot, location.settings.max_slot_wal_keep_size))
        except (OSError, TailraceError) as error:
            self.database.warn(f'replication slot "{slot.name}": {error}')
            return None, slot
        return status, location.slot(slot.name) if status.wal_status == "lost" else slot

    def _slot_statistics(self) -> Iterator[list[Any]]:
        """Nothing is ever spilled here, and nothing reset."""
        for slot in self.database.slots():
            decoded = slot.statistics
            streamed = decoded.stream_txns, decoded.stream_count, decoded.stream_bytes
            yield [slot.name, 0, 0, 0, *streamed, decoded.total_txns, decoded.total_bytes, None]

    def _origins(self) -> Iterator[list[Any]]:
        if self.database.found is None:
            return
        for each in self.database.origins.read().origins:
            if each.remote_lsn is not None:
                yield [each.oid, each.name, int(each.remote_lsn), 0]

    # -- who is connected ------------------------------------------------------------------------------------------------------------

    def _senders(self) -> Iterator[list[Any]]:
        for each in self.database.activity.clients:
            if each.stream:
                told = {
                    "pid": each.pid, "usename": each.user, "application_name": each.application_name, "client_addr": each.address or None,
                    "client_port": each.port, "backend_start": _unix(each.began), "state": each.stream, "sent_lsn": each.sent,
                    "write_lsn": each.written or None, "flush_lsn": each.flushed or None, "replay_lsn": each.applied or None,
                    "write_lag": self._interval(each.write_lag), "flush_lag": self._interval(each.flush_lag),
                    "replay_lag": self._interval(each.replay_lag), "sync_priority": each.sync_priority, "sync_state": each.sync_state,
                    "reply_time": _unix(each.reply_time),
                }  # fmt: skip
                yield self._row("pg_stat_replication", told)

    def _interval(self, lag: int) -> str | None:
        return None if lag < 0 else interval_text(lag, self.parameters.style)

    def _clients(self) -> Iterator[list[Any]]:
        for each in self.database.activity.clients:
            told = {
                "datname": each.database, "pid": each.pid, "usename": each.user, "application_name": each.application_name,
                "client_addr": each.address or None, "client_port": each.port, "backend_start": _unix(each.began),
                "state": each.state, "query": each.query, "backend_type": "walsender" if each.is_walsender else "client backend",
            }  # fmt: skip
            yield self._row("pg_stat_activity", told)

    def _synchronous(self) -> Iterator[list[Any]]:
        """What enough clients have, as synchronous_standby_names asks; no row where it asks for none."""
        activity = self.database.activity
        if activity.synchronous_standby_names:
            yield [each or None for each in activity.confirmed]

    def _row(self, view: str, told: dict[str, Any]) -> list[Any]:
        """What is not told is NULL."""
        return [told.get(name) for name, _ in views_of(self.database.major)[view]]

    # -- publications ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def _catalogs(self) -> CatalogTables:
        return self.database.catalogs(self.parameters.as_of, self.parameters.style)

    @property
    def here(self) -> DatabaseSnapshot:
        return self._catalogs.here

    @property
    def objects(self) -> CatalogObjects:
        """What functions say of the catalogs' objects."""
        return self._catalogs.objects

    def publications(self) -> list[Publication]:
        """Those defined here before the source's own of the same name."""
        defined: Sequence[Publication] = ()
        if (location := self.database.found) is not None:
            definitions = location.publications.read(self.here.system, self.here.database_oid, self.here.database)
            defined = definitions.current if self.parameters.as_of is None else definitions.at(self.here.lsn)
        names = {publication.name for publication in defined}
        own = [publication for publication in self._catalogs.of_source if publication.name not in names]
        return sorted([*defined, *own], key=lambda publication: publication.name)

    @property
    def shower(self) -> PublicationDescriber:
        """What prints publications as psql does."""
        from tailrace.publications.describe import PublicationDescriber  # noqa: PLC0415
        from tailrace.publications.publishing.filter_compiler import filter_text  # noqa: PLC0415

        here = self.here
        return PublicationDescriber(here.catalogs, here.major, lambda found, table: filter_text(here.compiler, found, table))

    def published_by(self, relation: Relation) -> list[str]:
        """The publications that have a table, with what they have of it, as psql prints them."""
        return self.shower.of_table(self.publications(), relation)

    @cached_property
    def _publication_catalogs(self) -> PublicationCatalogs:
        from tailrace.sql.views.publication_catalogs import PublicationCatalogs  # noqa: PLC0415 - it evaluates SQL

        return PublicationCatalogs(self.here, self.publications())

    def _publications(self) -> Iterator[list[Any]]:
        return self._publication_catalogs.heads()

    def _publication_tables(self) -> Iterator[list[Any]]:
        return self._publication_catalogs.published_tables()

    def _publication_tables_of(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return self._publication_catalogs.tables_of(names)

    def _published_relations(self) -> Iterator[list[Any]]:
        return self._publication_catalogs.tables(self._catalogs.table("pg_publication_rel"))

    def _published_schemas(self) -> Iterator[list[Any]]:
        return self._publication_catalogs.schemas(self._catalogs.table("pg_publication_namespace"))

    def name_of(self, reg_type: int, oid: int) -> str | None:
        """As `CatalogObjects.name_of`; the catalogs are not opened before a name is asked for."""
        return self.objects.name_of(reg_type, oid)

    def functions(self) -> dict[str, EngineFunction]:
        """What a query may call beside the engine's own."""
        columns = function_columns(self.database.major)["pg_get_publication_tables"]
        tables = EngineFunction(self._publication_tables_of, ("VARCHAR[]",), rows_type(columns))
        return {**self.objects.functions, f"{PREFIX}pg_get_publication_tables": tables}

    # -- catalogs --------------------------------------------------------------------------------------------------------------------

    def _roles(self, columns: Columns) -> pa.Table:
        """Which parameters are set for a role nobody tracks, and passwords are not for clients."""
        stored = self._catalogs.table("pg_authid")
        shown = {"rolpassword": pa.array(["********"] * len(stored)), "rolconfig": pa.nulls(len(stored), ARROW["text[]"])}
        return pa.table({column: shown[column] if column in shown else stored[column] for column, _ in columns})


def _unix(time: int) -> int | None:
    """A time of PostgreSQL's in microseconds since 1970; None for none."""
    return time + UNIX_TO_POSTGRES_USECS if time else None
