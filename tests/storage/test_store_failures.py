"""What goes wrong with a store is one clear error, which names the object's URL and no credential."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from support.s3_servers import ACCESS_KEY, BUCKET, READER_KEY, READER_SECRET, SECRET_KEY, S3Server, SeaweedFS, Versitygw
from support.store_proxy import StoreProxy, store_proxy
from tailrace.errors import PeerError, TailraceError, UsageError
from tailrace.storage import object_store
from tailrace.storage.open_store import delta_rs_options, open_store
from tailrace.storage.store import ObjectChanged, Store

SECRETS = (ACCESS_KEY, SECRET_KEY, READER_SECRET, "test-secret-kez", "no-such-access-key")
SERVERS = ["seaweedfs", pytest.param("versitygw", marks=pytest.mark.matrix)]
Use = Callable[[Store], object]
USES: dict[str, Use] = {
    "read": lambda store: store.read("a"),
    "read_range": lambda store: store.read_range("a", 0, 1),
    "open": lambda store: store.open("a"),
    "put": lambda store: store.put("a", b""),
    "put_file": lambda store: store.put_file("a", Path(__file__)),
    "put_new": lambda store: store.put_new("a", b""),
    "put_over": lambda store: store.put_over("a", b"", '"1"'),
    "list": lambda store: list(store.list()),
    "folders": lambda store: store.folders(),
}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def proxy(seaweedfs: SeaweedFS) -> Iterator[StoreProxy]:
    with store_proxy(seaweedfs.endpoint) as found:
        yield found


def refused(store: Store, use: Use, kind: type[TailraceError], message: str) -> TailraceError:
    """The error, of which nothing tells a secret, not even to who prints where it comes from."""
    with pytest.raises(kind, match=message) as caught:
        use(store)
    error = caught.value
    told = [
        str(error),
        repr(error),
        repr(vars(error)),
        repr(store),
        "".join(traceback.format_exception(error)),
        repr(pickle.dumps(error)),
    ]
    assert [secret for secret in SECRETS for text in told if secret in text] == []
    assert store.url.rpartition("/")[0] in str(error)
    assert error.hint or error.detail
    return error


def with_options(server: S3Server, url: str = "", **more: object) -> Store:
    return open_store(url or server.url, server.options | {f"aws_{name}": value for name, value in more.items()})


@pytest.mark.parametrize("use", USES)
def test_wrong_credentials(server: S3Server, use: str) -> None:
    for wrong in ({"secret_access_key": "test-secret-kez"}, {"access_key_id": "no-such-access-key"}):
        error = refused(with_options(server, **wrong), USES[use], UsageError, "does not accept these credentials")
        assert error.sqlstate == "28000"


@pytest.mark.parametrize("use", [use for use in USES if use != "put_over"])  # SeaweedFS looks at the condition first
def test_a_bucket_that_is_not_there(server: S3Server, use: str) -> None:
    refused(with_options(server, "s3://no-such-bucket/prefix"), USES[use], UsageError, "the bucket of .* does not exist")


@pytest.mark.parametrize("use", ["put", "put_file", "put_new", "put_over"])
def test_who_may_only_read(seaweedfs: SeaweedFS, use: str) -> None:
    store = with_options(seaweedfs, access_key_id=READER_KEY, secret_access_key=READER_SECRET)
    error = refused(store, USES[use], UsageError, "access to .* is denied")
    assert error.sqlstate == "42501"


@pytest.mark.matrix
def test_another_region(versitygw: Versitygw) -> None:
    for use in USES.values():
        refused(with_options(versitygw, region="eu-central-1"), use, UsageError, "is in another region")


@pytest.mark.parametrize("use", ["read", "put_new", "list"])
def test_an_endpoint_that_does_not_answer(seaweedfs: SeaweedFS, use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_WAITS", (0.01,))
    monkeypatch.setattr("tailrace.storage.bucket._RETRIES", {"max_retries": 1})
    store = with_options(seaweedfs, endpoint_url="http://127.0.0.1:1")
    error = refused(store, USES[use], PeerError, "cannot be reached at http://127.0.0.1:1")
    assert "refused" in error.detail
    refused(with_options(seaweedfs, endpoint_url="http://no-such-host.invalid"), USES[use], PeerError, "cannot be reached")


@pytest.mark.parametrize("use", ["read", "put_new", "list"])
def test_http_is_asked_for(seaweedfs: SeaweedFS, use: str) -> None:
    refused(with_options(seaweedfs, allow_http=False), USES[use], UsageError, "would be reached without encryption")


def test_what_speaks_no_tls(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.bucket._RETRIES", {"max_retries": 0})
    store = with_options(seaweedfs, endpoint_url=seaweedfs.endpoint.replace("http", "https"))
    refused(store, USES["read"], PeerError, "cannot be reached|did not answer|certificate")


def test_an_option_with_a_wrong_value(seaweedfs: SeaweedFS) -> None:
    refused(with_options(seaweedfs, skip_signature=SECRET_KEY), USES["read"], UsageError, "cannot be opened with these options")


def test_who_interrupts_is_heard_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {"endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}", "allow_http": True, "skip_signature": True}
        store = open_store("s3://bucket/prefix", options)
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for use in USES.values():
                began = time.monotonic()
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(KeyboardInterrupt):
                    use(store)
                assert time.monotonic() - began < 5
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def test_a_forked_process_is_told(seaweedfs: SeaweedFS) -> None:
    """It would wait for ever for threads that it has not."""
    store = with_options(seaweedfs)
    store.put("a", b"x")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        waiting = pool.apply_async(store.read, ("a",))
        with pytest.raises(UsageError, match="was forked"):
            waiting.get(20)
    assert store.read("a") == b"x"


def through(proxy: StoreProxy) -> Store:
    """Without signatures, since what is signed cannot be changed on the way."""
    options = {"endpoint_url": proxy.endpoint, "allow_http": True, "skip_signature": True}
    return open_store(f"s3://{BUCKET}/{uuid4()}", options)


def test_a_store_without_conditions_is_refused(proxy: StoreProxy) -> None:
    """It would take what two writers put under one name, one behind the other."""
    proxy.is_deaf = True
    store = through(proxy)
    refused(store, USES["put_new"], UsageError, "has no conditional writes")
    store.put("mark", b"1")
    refused(
        store, lambda store: store.put_over("mark", b"2", store.read_tagged("mark")[1]), UsageError, "has no conditional writes"
    )


def test_a_store_shows_once_that_it_has_conditions(proxy: StoreProxy) -> None:
    store = through(proxy)
    tag = store.put_new("mark", b"1")
    for number in range(5):
        tag = store.put_over("mark", b"%d" % (number + 2), tag)
        store.below("a").put_new(str(number), b"")
    assert proxy.puts == 11


def test_a_lost_answer_is_no_refusal(proxy: StoreProxy) -> None:
    """To put it again would meet what was put, and say that somebody else won."""
    store = through(proxy)
    tag = store.put_new("mark", b"1")
    proxy.lost = 1
    refused(store, lambda store: store.put_new("a", b"mine"), PeerError, "it is not known whether .* was written")
    assert store.read("a") == b"mine"
    proxy.lost = 1
    refused(store, lambda store: store.put_over("mark", b"2", tag), PeerError, "it is not known whether .* was written")
    assert store.read("mark") == b"2"
    with pytest.raises(ObjectChanged):
        store.put_over("mark", b"3", tag)
    proxy.lost = 1
    store.put("b", b"is put again")
    assert store.read("b") == b"is put again"


def test_a_store_that_is_busy_is_asked_again(proxy: StoreProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "_WAITS", (0.01,) * 4)
    store = through(proxy)
    tag = store.put_new("mark", b"1")
    for refusals in (1, 2, 4):
        proxy.refused = refusals
        tag = store.put_over("mark", b"%d" % refusals, tag)
    proxy.refused = 2
    store.put_new("a", b"")
    before = proxy.puts
    proxy.refused = 9
    refused(store, lambda store: store.put_new("b", b""), PeerError, "the store answered with status (409|503)")
    assert proxy.puts == before


def test_options_of_delta_rs_are_whole(seaweedfs: SeaweedFS) -> None:
    assert delta_rs_options(with_options(seaweedfs, session_token="t")) == {
        "AWS_ENDPOINT_URL": seaweedfs.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_SESSION_TOKEN": "t",
        "AWS_REGION": "us-east-1",
    }
