"""Tables of Iceberg read by pyiceberg itself: by the metadata that `version-hint.text` names, over Arrow's own file systems."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.table import StaticTable

from tailrace.storage.store import Store

_OPTIONS = {
    "endpoint": "s3.endpoint",
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "region": "s3.region",
}


def iceberg_table(store: Store, options: Mapping[str, str] | None = None) -> StaticTable:
    hint = store.read("metadata/version-hint.text").decode()
    said = {_name(name): value for name, value in (options or {}).items()}
    return StaticTable.from_metadata(f"{store.url}/metadata/v{hint}.metadata.json", said)


def _name(name: str) -> str:
    plain = name.lower().removeprefix("aws_").removesuffix("_url")
    return _OPTIONS.get(plain, name)


def iceberg_rows(store: Store, options: Mapping[str, str] | None = None) -> pa.Table:
    return iceberg_table(store, options).scan().to_arrow()
