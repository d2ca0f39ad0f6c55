"""The roles that may connect, from a file in TOML: a table each.

[orders_reader]
password = "SCRAM-SHA-256$4096:…$…:…"   # as in pg_authid.rolpassword
replication = true                      # may stream slots, and create and drop them (the default)
databases = ["app"]                     # these only; without it any
slots = ["orders_*"]                    # names, with * and ?
publications = ["orders"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import UsageError

_VERIFIER = re.compile(r"SCRAM-SHA-256\$\d+:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]{44}:[A-Za-z0-9+/=]{44}")


@dataclass(frozen=True, slots=True)
class Role:
    """`password` is a verifier of SCRAM-SHA-256, empty: none. What is None is not restricted."""

    name: str
    password: str = ""
    replication: bool = True
    databases: tuple[str, ...] | None = None
    slots: tuple[str, ...] | None = None
    publications: tuple[str, ...] | None = None

    def check_database(self, name: str) -> None:
        if self.databases is not None and name not in self.databases:
            raise UsageError(
                f'permission denied for database "{name}"', detail="User does not have CONNECT privilege.", sqlstate="42501"
            )

    def check_slot(self, name: str) -> None:
        if self.slots is not None and not any(fnmatchcase(name, each) for each in self.slots):
            raise UsageError(f'permission denied for replication slot "{name}"', sqlstate="42501")

    def check_publications(self, names: tuple[str, ...] | None) -> None:
        """`names` are what a stream gives; None: all there is."""
        if self.publications is None:
            return
        if names is None:
            raise UsageError(
                "permission denied to stream all tables", sqlstate="42501",
                hint=f"The role may stream publications: {', '.join(self.publications)}. Use pgoutput, and name some of them.",
            )  # fmt: skip
        for name in names:
            if name not in self.publications:
                raise UsageError(f'permission denied for publication "{name}"', sqlstate="42501")


@dataclass(frozen=True, slots=True)
class Roles:
    """By name. Without any, whoever a rule trusts has the role that he names."""

    known: Mapping[str, Role] = field(default_factory=dict)

    def role(self, name: str) -> Role:
        """Raises UsageError (28000) if there is none of this name."""
        if not self.known:
            return Role(name)
        if name not in self.known:
            raise UsageError(f'role "{name}" does not exist', sqlstate="28000")
        return self.known[name]

    def find(self, name: str) -> Role | None:
        """The same for who must not tell whether there is one."""
        return self.known.get(name)


def parse_roles(text: str, file: str = "roles.toml") -> Roles:
    """Raises UsageError (F0000) for what is no such file."""
    try:
        tables = tomllib.loads(text)
        return Roles({name: _role(name, table) for name, table in tables.items()})
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise UsageError(f'roles file "{file}": {error}', sqlstate="F0000") from None


def _role(name: str, table: Any) -> Role:
    if not isinstance(table, dict):
        raise ValueError(f'"{name}" is no table')
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in ("databases", "slots", "publications"):
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise ValueError(f'"{key}" of role "{name}" is no list of names')
            values[key] = tuple(value)
        elif (key == "replication" and isinstance(value, bool)) or (key == "password" and isinstance(value, str)):
            values[key] = value
        else:
            raise ValueError(f'"{key}" of role "{name}" is not known, or of another type')
    if (password := values.get("password")) and not _VERIFIER.fullmatch(password):
        raise ValueError(f'the password of role "{name}" is no SCRAM-SHA-256 verifier, as pg_authid has it')
    return Role(name, **values)
