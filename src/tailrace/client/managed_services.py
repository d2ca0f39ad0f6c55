"""Managed services that give their log to replicas of their own and to nobody else, told apart by the roles and parameters that they bring.

In: what a server has of these, as any role may see. Out: the service whose server it is. It says why a server refuses a replication connection, not
that it does: who has made such a role on a server of their own is not kept from anything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tailrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ManagedService:
    """`roles` are those that the service makes, `parameters` what stands before the dot in the names of its parameters."""

    name: str
    roles: frozenset[str]
    parameters: frozenset[str]

    @property
    def reason(self) -> str:
        return f"It is a server of {self.name}, which lets nobody receive its log but replicas of its own."

    @property
    def instead(self) -> str:
        return (
            f"No role, right or setting of {self.name} changes that. tailrace reads servers that are one's own, their backups and their archives of "
            "WAL; the service gives its changes by logical slots alone."
        )


def _service(name: str, roles: str, parameters: str) -> ManagedService:
    return ManagedService(name, frozenset(roles.split()), frozenset(parameters.split()))


SERVICES = (
    _service("Amazon Aurora", "", "aurora apg"),  # before RDS, whose roles it has
    _service("Amazon RDS", "rdsadmin rds_superuser rds_replication", "rds"),
    _service("Google AlloyDB", "alloydbsuperuser alloydbadmin", "alloydb"),
    _service("Google Cloud SQL", "cloudsqlsuperuser cloudsqladmin", "cloudsql"),
    _service("Azure Database for PostgreSQL", "azure_pg_admin azuresu", "azure"),
    _service("Aiven", "avnadmin", "aiven"),
    _service("DigitalOcean", "doadmin", ""),
    _service("Neon", "neon_superuser", "neon"),
)
_ASKED = """
SELECT ARRAY(SELECT rolname::text FROM pg_catalog.pg_roles),
       ARRAY(SELECT DISTINCT split_part(name, '.', 1) FROM pg_catalog.pg_settings WHERE name LIKE '%.%')
"""


def recognised(roles: Collection[str], parameters: Collection[str]) -> ManagedService | None:
    """The service that has any of these roles, or of these parameters."""
    return next((each for each in SERVICES if each.roles.intersection(roles) or each.parameters.intersection(parameters)), None)


def service_of(connection: Any) -> ManagedService | None:
    """The service whose server a connection of psycopg's leads to; None where it is of none that is known here, or
    does not say."""
    import psycopg  # noqa: PLC0415 - only those who connect need it

    try:
        roles, parameters = connection.execute(_ASKED).fetchone()
    except psycopg.Error:
        return None
    return recognised(roles, parameters)
