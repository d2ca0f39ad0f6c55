"""A bucket of S3, Google Cloud Storage or Azure, and obstore's clients for it, which are made when they are first used, in each process anew.

A put that must not overwrite is sent once (`careful`): a client that sends it again after a broken connection may meet its own first one, and would
say that somebody else won.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from obstore import exceptions, store

from tailrace.errors import UsageError
from tailrace.storage.store_failures import failure_of, refusal
from tailrace.storage.store_kinds import STORE_KINDS
from tailrace.storage.store_options import of_the_client, secrets_of

_TIMES = {"connect_timeout": "10s", "read_timeout": "60s", "timeout": "300s"}
"""Unless options say otherwise. A stalled connection is given up after the second, a request after the third."""
_RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=60)}


class Bucket:
    """`authority` is what stands between `scheme` and path in a URL. Pickles with its options; its repr has none of them."""

    _process = 0
    """Which has obstore's threads. A forked child has not, and would wait for them for ever."""

    def __init__(self, scheme: str, authority: str, options: Mapping[str, str]) -> None:
        self.scheme = scheme
        self.kind = STORE_KINDS[scheme]
        self.authority = authority
        self.options = dict(options)
        self.secrets = secrets_of(options)
        self.has_conditions = not self.kind.conditions_unless & options.keys()
        """Whether it is known that the store honours conditions."""
        self._made: dict[bool, Any] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Bucket, (self.scheme, self.authority, self.options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bucket) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.scheme, self.authority))

    def __repr__(self) -> str:
        return f"Bucket({self.url!r})"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def endpoint(self) -> str:
        """For messages."""
        given = self.options.get("endpoint") or self.options.get("base_url")
        return given or self.kind.called

    @property
    def lists_in_order(self) -> bool:
        """By the bytes of whole names, and from any name on. Others may list folder by folder."""
        return self.kind.ordered_unless is not None and not self.kind.ordered_unless & self.options.keys()

    @property
    def client(self) -> Any:
        return self._client(is_careful=False)

    @property
    def careful(self) -> Any:
        return self._client(is_careful=True)

    def _client(self, *, is_careful: bool) -> Any:
        if Bucket._process not in (0, os.getpid()):
            raise UsageError(
                f"{self.url} cannot be used in a process that was forked from one that has used a store",
                hint="Have it spawned instead.",
            )
        Bucket._process = os.getpid()
        if is_careful not in self._made:
            retries = {"max_retries": 0} if is_careful else _RETRIES
            self._made[is_careful] = self._connected(retries)
        return self._made[is_careful]

    def _connected(self, retries: Any) -> Any:
        client: Any = _TIMES | of_the_client(self.options)
        config: Any = {name: value for name, value in self.options.items() if name not in client}
        if (
            self.kind.is_aws
            and os.environ.get("AWS_SESSION_TOKEN")
            and "access_key_id" in config
            and "session_token" not in config
        ):
            raise UsageError(
                f"AWS_SESSION_TOKEN is set where {self.url} is used, and does not belong to the access key that was given",
                hint="Unset it there.",
            )
        try:
            made = getattr(store, self.kind.client)
            if self.kind.by_url:
                return made.from_url(self.url, config=config, client_options=client, retry_config=retries)
            return made(self.authority, config=config, client_options=client, retry_config=retries)
        except (exceptions.BaseError, ValueError, OSError) as error:
            raise refusal(failure_of(error, self.secrets), self.url, self.endpoint) from None
