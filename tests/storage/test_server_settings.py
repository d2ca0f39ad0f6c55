"""Which setting counts, of those that a server was given: as the server itself says, and as the manual has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.servers import Server
from tailrace.storage.server_settings import setting_of


def test_later_ones_count(tmp_path: Path) -> None:
    main = tmp_path / "postgresql.conf"
    main.write_text("#wal_keep_size = 1\nlisten_addresses = 'it''s'  # here\n")
    assert setting_of(tmp_path, "wal_keep_size") is None
    assert setting_of(tmp_path, "listen_addresses") == "it's"
    main.write_text("WAL_Keep_Size 1GB\ninclude_dir 'more'\ninclude_if_exists 'nothing.conf'\n")
    assert setting_of(tmp_path, "wal_keep_size") == "1GB"
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.conf").write_text("wal_keep_size=2GB\n")
    (tmp_path / "more" / "b.txt").write_text("wal_keep_size=9GB\n")
    assert setting_of(tmp_path, "wal_keep_size") == "2GB"
    (tmp_path / "postgresql.auto.conf").write_text("wal_keep_size = '3GB'\n")
    assert setting_of(tmp_path, "wal_keep_size") == "3GB"
    (tmp_path / "postmaster.opts").write_text('/usr/bin/postgres "-D" "/data" "-c" "wal_keep_size=4GB"\n')
    assert setting_of(tmp_path, "wal_keep_size") == "4GB"
    elsewhere = tmp_path / "etc.conf"
    elsewhere.write_text("max_wal_size=1GB\n")
    (tmp_path / "postmaster.opts").write_text(f'/usr/bin/postgres "--config-file={elsewhere}" "-cwal-keep-size=5GB"\n')
    assert setting_of(tmp_path, "max_wal_size") == "1GB"
    assert setting_of(tmp_path, "wal_keep_size") == "5GB"


@pytest.mark.postgres
def test_a_server_says_the_same() -> None:
    with Server(16, {"wal_keep_size": "48MB"}) as server:
        assert setting_of(server.data_dir, "wal_keep_size") == server.value("SHOW wal_keep_size")
