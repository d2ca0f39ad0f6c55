"""Rules in pg_hba.conf's syntax: what is taken is what PostgreSQL takes, and what is not known here is refused, not passed over."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.servers import Server
from tailrace.errors import UsageError
from tailrace.server.host_based_access import parse_rules
from tailrace.server.roles import parse_roles

BOTH = [
    'host all "all" 127.0.0.1/32 trust', "host all all 127.0.0.1 255.255.255.255 trust", 'host a"b c"d all all trust',
    'host all "a"b all trust', 'host all a,"b", c all trust', "host all ,a all trust", 'host "" "a""b" all trust', "host all /^a.*$ all trust",
    "host all all ::1/128 trust", "host all all all reject # x", "host all all 0.0.0.0/0 reject#x", "host all all all tru\\\nst",
]  # fmt: skip
NEITHER = [
    "HOST all all all trust", "host,local all all all trust", "host all all all trust,md5", "host all a ,b all trust",
    "host @file all all trust", "host all /( all trust", 'host all "/(" all trust', "host\xa0all all all trust",
    "host all all 127.0.0.1/255.0.0.0 trust", "host all all 10.0.0.0/33 trust", "host all all 1 trust", "host all all a,b trust",
    "host all all all trust foo=bar", "host all all all peer", "local all all", "# a\u2028local all all trust\nhost",
]  # fmt: skip
THEIRS = [
    "host all +role all trust",
    "host all all all password",
    "host all all samenet trust",
    "host all all .example.com trust",
]


def _takes(text: str) -> bool:
    try:
        return bool(parse_rules(text))
    except UsageError:
        return False


@pytest.mark.postgres
def test_what_is_a_rule() -> None:
    with Server(18) as server:
        file = server.data_dir / "pg_hba.conf"
        before = file.read_bytes()
        with server.connect() as connection:
            for text in (*BOTH, *NEITHER, *THEIRS):
                file.write_text(text + "\n")
                errors = connection.execute("SELECT error FROM pg_hba_file_rules").fetchall()
                theirs = bool(errors) and all(error is None for (error,) in errors)
                assert (theirs, _takes(text)) == (text not in NEITHER, text in BOTH), text
        file.write_bytes(before)


def test_words_of_rules() -> None:
    [rule] = parse_rules('host a"b c"d,"all" "a""b" all "trust"')
    assert [word.text for word in (*rule.databases, *rule.users)] == ["ab cd", "all", 'a"b']
    assert [word.is_quoted for word in (*rule.databases, *rule.users)] == [False, True, True]


@pytest.mark.parametrize(
    "text", ["SCRAM-SHA-256$0:AAAA$", "SCRAM-SHA-256$4096:AAA$", "SCRAM-SHA-256$4096:A=AA$", "md5", "SCRAM-SHA-256$-1:AAAA$"]
)
def test_verifiers_that_are_none(text: str) -> None:
    key = "A" * 43 + "="
    with pytest.raises(UsageError, match="is no SCRAM-SHA-256 verifier"):
        parse_roles(f'[a]\npassword = "{text}{key}:{key}"')
    parse_roles(f'[a]\npassword = "SCRAM-SHA-256$4096:AAAA${key}:{key}"')


def test_names_of_roles_may_be_anything(tmp_path: Path) -> None:
    roles = parse_roles('["a\\nb; DROP"]\nreplication = true\nslots = ["[", "*"]\n')
    assert roles.role("a\nb; DROP").privileges.sees_slot("x", "any")


def test_a_file_that_is_nested_too_deeply() -> None:
    with pytest.raises(UsageError, match="roles file"):
        parse_roles("a = " + "[" * 100_000)
