"""Which URLs open which stores, and as whom."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.s3_servers import ACCESS_KEY, SECRET_KEY, SeaweedFS
from tailrace.errors import UsageError
from tailrace.storage.local_store import LocalStore
from tailrace.storage.object_store import ObjectStore
from tailrace.storage.open_store import delta_rs_options, delta_rs_url, open_store
from tailrace.storage.store_options import resolved_options

KEYS = {"AWS_ACCESS_KEY_ID": "of-environment", "AWS_SECRET_ACCESS_KEY": "secret-of-environment"}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the tests has no credentials here."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("/var/lake", "/var/lake"),
        ("/var/../lake/", "/lake"),
        ("file:///var/lake", "/var/lake"),
        ("file://localhost/var/a%20b", "/var/a b"),
        ("FILE:///var", "/var"),
        ("/var/s3://x", "/var/s3:/x"),
        (Path("/var/a?b#c"), "/var/a?b#c"),
        ("/var/a?b", "/var/a?b"),
        ("12:30/x", f"{Path.cwd()}/12:30/x"),
        ("lake", f"{Path.cwd()}/lake"),
    ],
)
def test_directories(url: str | Path, folder: str) -> None:
    store = open_store(url)
    assert isinstance(store, LocalStore)
    assert store.url == delta_rs_url(store) == folder
    assert delta_rs_options(store) == {}


@pytest.mark.parametrize(
    ("url", "told", "to_delta_rs"),
    [
        ("s3://bucket", "s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket", "s3://bucket"),
        ("S3://bucket/a/b/", "s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://my.bucket-1/a b@c:d%e", "s3://my.bucket-1/a b@c:d%e", "s3://my.bucket-1/a%20b%40c%3Ad%25e"),
        ("gs://bucket_1/a", "gs://bucket_1/a", "gs://bucket_1/a"),
        ("abfss://box@account.dfs.core.windows.net/a", *["abfss://box@account.dfs.core.windows.net/a"] * 2),
    ],
)
def test_buckets(url: str, told: str, to_delta_rs: str) -> None:
    store = open_store(url)
    assert store.url == told
    assert delta_rs_url(store) == to_delta_rs
    assert pickle.loads(pickle.dumps(store)) == store


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("hdfs://host/a", "a kind of store that is not known: hdfs"),
        ("http://host/a", "a kind of store that is not known: http"),
        ("s3a://bucket/a", "not known: s3a\nHINT:  Write s3:// instead"),
        ("az://box/a", "not known: az\nHINT:  Write abfss:// instead"),
        ("s3:/bucket/a", "is no URL: two slashes"),
        ("s3:bucket", "is no URL: two slashes"),
        ("s3://", "has no bucket"),
        ("s3:///a", "has no bucket"),
        ("abfss:///a", "has no bucket"),
        ("s3://_/a", "has no name of a bucket"),
        ("s3://my bucket/a", "has no name of a bucket"),
        ("abfss://box/a", "has no name of a bucket .*\nHINT:  Write abfss://container@account"),
        ("s3://bucket/a?region=SECRET", "has a query"),
        ("s3://bucket?SECRET", "has a query"),
        ("s3://bucket/a#SECRET", "has a fragment"),
        ("file:///a?SECRET", "has a query"),
        ("s3://key:SECRET@bucket/a", "has credentials in it"),
        ("s3://key:SE/SECRET@bucket/a", "has credentials in it"),
        ("s3://SECRET@bucket/a", "has credentials in it"),
        ("abfss://box:SECRET@account.dfs.core.windows.net/a", "has credentials in it"),
        ("file://host/a", "names a host"),
        ("file://a", "names a host"),
        ("s3://bucket/a//b", "has a prefix that no object can have"),
        ("s3://bucket/../b", "has a prefix that no object can have"),
        ("", "is no directory"),
        ("/a\0b", "is no directory"),
    ],
)
def test_urls_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert "SECRET" not in str(caught.value)
    assert re.search(message, str(caught.value))


def test_a_directory_has_no_options(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which has no options"):
        open_store(tmp_path, {"aws_region": "x"})


def options(given: Mapping[str, Any], environment: Mapping[str, str], kind: str = "s3") -> dict[str, str]:
    found = resolved_options(kind, given, {"HOME": "/none"} | dict(environment))
    if kind == "s3" and found.get("region") == "us-east-1":
        del found["region"]
    return found


def test_what_was_given_wins() -> None:
    theirs = {"access_key_id": "of-environment", "secret_access_key": "secret-of-environment"}
    given = {"access_key_id": "given", "secret_access_key": "of-given"}
    assert options({}, KEYS) == theirs
    for names in ("aws_{}", "{}"):
        assert options({names.format(name): value for name, value in given.items()}, KEYS) == given
    assert options({f"AWS_{name.upper()}": value for name, value in given.items()}, KEYS) == given
    assert options({"skip_signature": True}, KEYS) == {"skip_signature": "true"}
    assert options({"aws_region": "mars"}, KEYS | {"AWS_REGION": "moon"}) == theirs | {"region": "mars"}


def test_names_that_mean_the_same() -> None:
    around = {
        "AWS_DEFAULT_REGION": "a",
        "AWS_ENDPOINT_URL": "https://b",
        "AWS_ALLOW_HTTP": "true",
        "AWS_PAGER": "less",
        "PATH": "/",
    }
    assert options({}, around) == {"region": "a", "endpoint": "https://b", "allow_http": "true"}
    more = {"AWS_REGION": "c", "AWS_ENDPOINT_URL_S3": "https://d", "AWS_TOKEN": ""}
    assert options({}, around | more) == {"region": "c", "endpoint": "https://d", "allow_http": "true"}
    assert options({"timeout": "5s", "endpoint_url": "https://e"}, around)["endpoint"] == "https://e"
    assert options({"account_key": "x"}, {"AZURE_STORAGE_ACCESS_KEY": "y", "AZURE_TENANT_ID": "z"}, "abfss") == {
        "account_key": "x"
    }
    assert options({}, {"AZURE_STORAGE_SAS_TOKEN": "y", "AZURE_CLIENT_ID": "z"}, "abfss") == {"sas_key": "y", "client_id": "z"}
    assert options({}, {"GOOGLE_SERVICE_ACCOUNT_PATH": "/p"}, "gs") == {"service_account": "/p"}


def test_an_option_that_is_none() -> None:
    with pytest.raises(UsageError, match='"aws_acces_key_id" is no option') as caught:
        options({"aws_acces_key_id": "SECRET"}, {})
    assert "Perhaps aws_access_key_id is meant" in caught.value.hint
    assert "SECRET" not in str(caught.value)
    with pytest.raises(UsageError, match='"frobnicate" is no option'):
        options({"frobnicate": "SECRET"}, {})


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("s3://bucket", "aws_region aws_session_token sse_kms_key_id virtual_hosted_style_request imdsv1_fallback"),
        ("gs://bucket", "google_bearer_token base_url skip_signature"),
        (
            "abfss://box@account.dfs.core.windows.net",
            "azure_client_id azure_storage_account_key tenant_id use_azure_cli authority_host",
        ),
    ],
)
def test_options_are_known_to_obstore(url: str, names: str) -> None:
    """Each alone; of those of the HTTP client, some would end the process if they came with the store's."""
    for name in [*names.split(), "allow_http", "proxy_url", "timeout", "read_timeout", "user_agent", "http1_only"]:
        value = "5s" if "time" in name else "https://host" if name.endswith(("url", "host")) else "true"
        store = open_store(url, {name: value})
        assert isinstance(store, ObjectStore)
        assert store.bucket.client != store.bucket.careful


def test_a_token_of_another_key() -> None:
    given = {"aws_access_key_id": "given", "aws_secret_access_key": "x"}
    with pytest.raises(UsageError, match="AWS_SESSION_TOKEN in the environment belongs to another"):
        options(given, KEYS | {"AWS_SESSION_TOKEN": "SECRET"})
    assert options(given | {"aws_session_token": "mine"}, KEYS | {"AWS_SESSION_TOKEN": "SECRET"})["session_token"] == "mine"


def test_an_endpoint_with_a_password() -> None:
    with pytest.raises(UsageError, match="endpoint has a user name or a password") as caught:
        options({"aws_endpoint_url": "https://u:SECRET@host/"}, {})
    assert "SECRET" not in str(caught.value)


def test_profiles(tmp_path: Path) -> None:
    home = tmp_path / ".aws"
    home.mkdir()
    (home / "credentials").write_text(
        "[default]\naws_access_key_id = d\naws_secret_access_key = d%s\n[work]\naws_access_key_id=w\naws_secret_access_key=ws\n"
        "aws_session_token=wt\n"
    )
    (home / "config").write_text(
        "[default]\nregion = moon\n[profile work]\nregion = mars\nendpoint_url = https://e\n[profile sso]\nsso_session = x\nregion = y\n"
    )
    around = {"HOME": str(tmp_path)}
    default = {"access_key_id": "d", "secret_access_key": "d%s", "region": "moon"}
    work = {"access_key_id": "w", "secret_access_key": "ws", "session_token": "wt", "region": "mars", "endpoint": "https://e"}
    assert options({}, around) == default
    assert options({}, around | {"AWS_PROFILE": "work"}) == options({"aws_profile": "work"}, around) == work
    assert options({}, around | {"AWS_PROFILE": "work", "AWS_REGION": "here"}) == work | {"region": "here"}
    assert options({}, around | {"AWS_PROFILE": "work"} | KEYS)["access_key_id"] == "of-environment"
    assert options({"aws_profile": "work"}, around | KEYS) == work
    assert options({}, around | {"AWS_ROLE_ARN": "arn"}) == {"role_arn": "arn"}
    moved = {"AWS_CONFIG_FILE": str(tmp_path / "none"), "AWS_SHARED_CREDENTIALS_FILE": str(home / "credentials")}
    assert options({}, moved) == {name: value for name, value in default.items() if name != "region"}
    with pytest.raises(UsageError, match='profile "none" could not be found'):
        options({"aws_profile": "none"}, around)
    with pytest.raises(UsageError, match=r'profile "sso" has no access key of its own .*\nHINT: .* --profile sso'):
        options({}, around | {"AWS_PROFILE": "sso"})
    (home / "credentials").write_text("aws_secret_access_key = SECRET\n")
    with pytest.raises(UsageError, match="is not as `aws configure` writes it") as caught:
        options({}, around)
    assert "SECRET" not in str(caught.value)


def test_credentials_of_the_environment_travel(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": seaweedfs.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    store = open_store(seaweedfs.url)
    assert SECRET_KEY not in repr(store)
    store.put("a", b"x")
    pickled = pickle.dumps(store)
    for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    assert pickle.loads(pickled).read("a") == b"x"
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another")
    with pytest.raises(UsageError, match="does not belong to the access key"):
        pickle.loads(pickled).read("a")


def test_directories_need_no_obstore(tmp_path: Path) -> None:
    """Who has no object store need not have the extra."""
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from tailrace.storage.open_store import open_store\n"
        f"open_store({str(tmp_path)!r}).put('a', b'x')\n"
        "try:\n    open_store('s3://bucket')\nexcept ModuleNotFoundError as error:\n    print(error.name)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "obstore\n"
