"""Which roles and parameters make a service known, and what does not."""

from __future__ import annotations

import pytest

from tailrace.client.managed_services import recognised


@pytest.mark.parametrize(
    ("roles", "parameters", "name"),
    [
        (("rds_superuser", "rdsadmin"), (), "Amazon RDS"),
        (("rdsadmin",), ("rds", "aurora"), "Amazon Aurora"),
        ((), ("rds",), "Amazon RDS"),
        (("cloudsqlsuperuser",), (), "Google Cloud SQL"),
        ((), ("cloudsql",), "Google Cloud SQL"),
        (("alloydbsuperuser", "cloudsqladmin"), ("alloydb",), "Google AlloyDB"),
        (("azure_pg_admin",), ("azure",), "Azure Database for PostgreSQL"),
        (("avnadmin",), (), "Aiven"),
        (("neon_superuser",), (), "Neon"),
    ],
)
def test_services_are_recognised(roles: tuple[str, ...], parameters: tuple[str, ...], name: str) -> None:
    service = recognised(roles, parameters)
    assert service is not None
    assert service.name == name
    assert service.name in service.reason
    assert service.name in service.instead


def test_a_server_of_ones_own() -> None:
    assert recognised(("postgres", "pg_monitor", "admin", "rds"), ("plpgsql", "pg_stat_statements", "timescaledb")) is None
