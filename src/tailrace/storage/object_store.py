"""A store in a bucket of S3, Google Cloud Storage or Azure, by obstore (docs/decisions/017-obstore.md).

A tag is the object's ETag, or its generation in Google's. The store itself sees to it that of several writers one wins: by If-None-Match and
If-Match. A store that only speaks S3's protocol has to show first that it honours them, since one that does not would lose rows.
"""

from __future__ import annotations

import errno
import heapq
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import obstore
import pyarrow as pa
from obstore import exceptions

from tailrace.dataclass import dataclass
from tailrace.errors import PeerError
from tailrace.storage.bucket import Bucket
from tailrace.storage.object_file import ObjectFile
from tailrace.storage.object_names import check_name, name_key
from tailrace.storage.store import ObjectChanged, StoredObject
from tailrace.storage.store_failures import StoreFailure, failure_of, no_conditions, not_known, refusal
from tailrace.storage.waited import waited

_PART, _MOST_PARTS = 8 << 20, 9000
_AT_ONCE = 1000
"""Objects of a page of a listing, and of a request to delete."""
_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds, about, before a conditional put that the store did not look at is sent again."""
_OF_OBSTORE = (exceptions.BaseError, OSError, NotImplementedError, ValueError)
_NO_SUCH_TAG = '"00000000000000000000000000000000"'


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """`prefix` is empty or ends in `/`."""

    bucket: Bucket
    prefix: str

    @property
    def url(self) -> str:
        return f"{self.bucket.url}/{self.prefix}".rstrip("/")

    def below(self, prefix: str) -> ObjectStore:
        return ObjectStore(self.bucket, f"{self.prefix}{check_name(prefix.removesuffix('/'))}/") if prefix else self

    def read(self, name: str) -> bytes:
        return self.read_tagged(name)[0]

    def read_tagged(self, name: str) -> tuple[bytes, str]:
        with self._asked(name) as path:
            found = waited(obstore.get, self.bucket.client, path)
            return bytes(waited(found.bytes)), self._tag(found.meta)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        try:
            with self._asked(name) as path:
                if length > 0:
                    return bytes(waited(obstore.get_range, self.bucket.client, path, start=start, length=length))
                waited(obstore.head, self.bucket.client, path)
        except _Behind:
            pass
        return b""

    def open(self, name: str) -> pa.NativeFile:
        path = self.prefix + check_name(name)
        return pa.PythonFile(ObjectFile(self.bucket.client, path, lambda error: self._error(error, name)), mode="r")

    def put(self, name: str, data: bytes) -> str:
        with self._asked(name) as path:
            return self._tag(waited(obstore.put, self.bucket.client, path, data, chunk_size=_PART))

    def put_file(self, name: str, path: Path) -> None:
        part = max(_PART, path.stat().st_size // _MOST_PARTS)
        with path.open("rb") as file, self._asked(name) as target:
            waited(obstore.put, self.bucket.client, target, file, chunk_size=part)

    def put_written(self, name: str, write: Callable[[BinaryIO], object]) -> int:
        written = BytesIO()
        write(written)
        with self._asked(name) as path, written.getbuffer() as data:
            waited(obstore.put, self.bucket.client, path, data, chunk_size=_PART)
            return len(data)

    def put_new(self, name: str, data: bytes) -> str:
        def failed(failure: StoreFailure) -> Exception | None:
            is_there = failure.status == 412 or failure.code in ("BlobAlreadyExists", "PreconditionFailed", "ConditionNotMet")
            return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._url_of(name)) if is_there else None

        return self._put_if(name, data, "create", failed)

    def put_over(self, name: str, data: bytes, tag: str) -> str:
        def failed(failure: StoreFailure) -> Exception | None:
            is_another = failure.status == 412 or failure.has_no_object
            return ObjectChanged(f"{self._url_of(name)} is another than it was") if is_another else None

        return self._put_if(name, data, self._version(tag), failed)

    def list(self, prefix: str = "", after: str = "") -> Iterator[StoredObject]:
        found = self._listed(prefix, after)
        return (
            found if self.bucket.lists_in_order else _in_order(found, len(prefix.rpartition("/")[0]) + 1 if "/" in prefix else 0)
        )

    def folders(self, prefix: str = "") -> Sequence[str]:
        path = self.prefix + (f"{check_name(prefix.removesuffix('/'))}/" if prefix else "")
        with self._asked():
            found = waited(obstore.list_with_delimiter, self.bucket.client, path.removesuffix("/"))["common_prefixes"]
        return sorted((each.removesuffix("/")[len(path) :] for each in found), key=name_key)

    def delete(self, names: Iterable[str]) -> None:
        paths = [self.prefix + check_name(name) for name in names]
        for some in (paths[at : at + _AT_ONCE] for at in range(0, len(paths), _AT_ONCE)):
            try:
                with self._asked():
                    waited(obstore.delete, self.bucket.client, some)
            except FileNotFoundError:  # said by stores that delete one by one
                self._delete_each(some)

    def _delete_each(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                with self._asked():
                    waited(obstore.delete, self.bucket.client, path)
            except FileNotFoundError:
                pass

    def _listed(self, prefix: str, after: str) -> Iterator[StoredObject]:
        """As the store lists them. It is asked for whole folders, from a name on that is not behind what is wanted."""
        folder = self.prefix + prefix.rpartition("/")[0]
        behind = name_key(after)
        start = after if self.bucket.lists_in_order else _folder_order(after)
        with self._asked():
            pages = obstore.list(
                self.bucket.client,
                folder.removesuffix("/") or None,
                offset=self.prefix + start if start else None,
                chunk_size=_AT_ONCE,
            )
        while True:
            with self._asked():
                page = waited(next, pages, None)
            if page is None:
                return
            for each in page:
                name = each["path"][len(self.prefix) :]
                if name.startswith(prefix) and name_key(name) > behind:
                    yield StoredObject(name, each["size"], each["last_modified"].timestamp(), self._tag(each))

    def _put_if(self, name: str, data: bytes, mode: object, failed: Callable[[StoreFailure], Exception | None]) -> str:
        """`failed` says what it means to the caller that the store's condition was not met, and None if that is not what happened."""
        tag = self._put_once(name, data, mode, failed)
        if not self.bucket.has_conditions:
            # The same content again, with a condition that cannot be met. A store that takes it would have taken anything.
            try:
                self._put_once(name, data, "create" if mode == "create" else {"e_tag": _NO_SUCH_TAG}, failed)
            except (FileExistsError, ObjectChanged):
                self.bucket.has_conditions = True
            else:
                raise no_conditions(self._url_of(name))
        return tag

    def _put_once(self, name: str, data: bytes, mode: object, failed: Callable[[StoreFailure], Exception | None]) -> str:
        path = self.prefix + check_name(name)
        for wait in (*_WAITS, None):
            try:
                return self._tag(waited(obstore.put, self.bucket.careful, path, data, mode=mode))
            except _OF_OBSTORE as error:
                failure = failure_of(error, self.bucket.secrets)
                told = failed(failure)
                if told is not None:
                    raise told from None
                if isinstance(error, NotImplementedError) or failure.status == 501:
                    raise no_conditions(self._url_of(name), failure.words) from None
                if failure.is_unknown:
                    raise not_known(self._url_of(name)) from None
                if wait is None or not failure.is_not_done or failure.was_not_sent:
                    raise refusal(failure, self._url_of(name), self.bucket.endpoint) from None
                time.sleep(wait * random.uniform(0.5, 1.5))
        raise AssertionError

    def _tag(self, answer: Any) -> str:
        tag = answer["version"] if self.bucket.kind.tag_is_version and answer["version"] else answer["e_tag"]
        if not tag:
            raise no_conditions(self.url, "It gives objects no ETag.")
        return str(tag).strip('"') if self.bucket.kind.quotes_tags else str(tag)  # whose listings have no quotes about it

    def _version(self, tag: str) -> dict[str, str]:
        if self.bucket.kind.tag_is_version:
            return {"version": tag}
        return {"e_tag": f'"{tag}"' if self.bucket.kind.quotes_tags else tag}

    def _url_of(self, name: str) -> str:
        return f"{self.bucket.url}/{self.prefix}{name}"

    @contextmanager
    def _asked(self, name: str | None = None) -> Iterator[str]:
        """The object's path in the bucket; or, for the store itself, the errors only."""
        path = self.prefix + check_name(name) if name is not None else self.prefix
        try:
            yield path
        except _OF_OBSTORE as error:
            raise self._error(error, name) from None

    def _error(self, error: Exception, name: str | None) -> BaseException:
        url = self.url if name is None else self._url_of(name)
        failure = failure_of(error, self.bucket.secrets)
        if failure.status == 416:
            return _Behind()
        if failure.has_no_object or (isinstance(error, FileNotFoundError) and not failure.code):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), url)
        return refusal(failure, url, self.bucket.endpoint)


class _Behind(Exception):
    """The range begins where the object has ended."""


def _folder_order(after: str) -> str:
    """A name from which on a store that lists folder by folder has all that is behind `after`. In such a listing `a/b` stands before `a b`, and what
    is behind `a` has nothing of the folder `a`. So the name is cut before what sorts before a folder's `/`, and by one character more."""
    low = next((at for at, character in enumerate(after) if character < "/"), len(after))
    start = after[:low].rstrip("/")[:-1]
    while start.endswith("/"):
        start = start[:-2]
    return start


def _in_order(found: Iterator[StoredObject], at: int) -> Iterator[StoredObject]:
    """By the bytes of names, of a listing that may be folder by folder. What stands before the next object's first part can be told: nothing that is
    before that comes any more. `at` is where the first part begins that may differ."""
    waiting: list[tuple[bytes, StoredObject]] = []
    last = b""
    for each in found:
        heapq.heappush(waiting, (name_key(each.name), each))
        first = name_key(each.name[: at + len(each.name[at:].partition("/")[0])])
        while waiting and waiting[0][0] <= first:
            yield (told := heapq.heappop(waiting))[1]
            last = told[0]
        if waiting and waiting[0][0] <= last:
            raise PeerError(f"the store lists {each.name!r} too late", hint="It lists objects in no order, and cannot be used.")
    yield from (heapq.heappop(waiting)[1] for _ in range(len(waiting)))
