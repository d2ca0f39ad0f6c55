"""The kinds of object stores, a row each: what their URLs look like, which options they take, and what is peculiar to them.

Another kind that obstore has a client for is another row here. It imports nothing that takes time to load, so that a wrong URL is refused at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.dataclass import dataclass

CLIENT_OPTIONS = (
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only", "http2_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url", "randomize_addresses", "read_timeout",
    "root_certificate", "timeout", "user_agent",
)  # fmt: skip
"""Those that are not the store's, but of whoever speaks HTTP with it."""
SECRET_CLIENT_OPTIONS = ("proxy_url",)
_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_CONTAINER = r"[a-z0-9$][a-z0-9-]*@[a-z0-9-]+(\.[a-z0-9-]+)+"


@dataclass(frozen=True, slots=True)
class StoreKind:
    """`prefixes` may stand before the name of an option; the first is written. `identity` says who one is: where any of it is given, none is taken
    from the environment. Of names that mean the `same`, an earlier one wins."""

    called: str
    """For people."""
    example: str
    client: str
    """The class of obstore."""
    prefixes: tuple[str, ...]
    identity: tuple[str, ...]
    others: tuple[str, ...]
    secret: tuple[str, ...]
    """Of both, those whose values nobody may see."""
    same: Mapping[str, tuple[str, ...]]
    also: tuple[str, ...] = ()
    """Schemes that others write for it."""
    authority: str = _BUCKET
    """What stands between scheme and path, as a regular expression. Where it has an @, that is no user."""
    by_url: bool = False
    """Whether its client is made of the URL, and not of the bucket's name."""
    is_aws: bool = False
    """Whether the profiles of `aws configure` are read, and a region is needed."""
    conditions_unless: frozenset[str] = frozenset()
    """It is known that the store honours conditions, unless one of these options is given: others that speak its protocol have to show it."""
    ordered_unless: frozenset[str] | None = None
    """It lists by the bytes of whole names, and from any name on, unless one of these options is given. None: it may list folder by folder."""
    tag_is_version: bool = False
    """Whether an object is known by its version, and not by its ETag."""
    quotes_tags: bool = False
    """Whether ETags have quotes about them, but for those of listings."""
    prefixed: frozenset[str] = frozenset()
    """Of the HTTP client's options those that delta-rs looks for with the prefix."""
    delta_rs: Mapping[str, str] | None = None
    """Options that delta-rs knows by another name."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.identity, *self.others, *CLIENT_OPTIONS))


STORE_KINDS: Mapping[str, StoreKind] = {
    "s3": StoreKind(
        "Amazon S3", "s3://bucket/prefix", "S3Store",
        ("aws_",),
        (
            "access_key_id", "secret_access_key", "session_token", "profile", "skip_signature", "web_identity_token_file", "role_arn",
            "role_session_name", "container_credentials_relative_uri", "container_credentials_full_uri", "container_authorization_token_file",
        ),
        (
            "region", "endpoint", "checksum_algorithm", "conditional_put", "disable_bulk_delete", "disable_tagging", "imdsv1_fallback",
            "metadata_endpoint", "request_payer", "s3_express", "server_side_encryption", "sse_bucket_key_enabled",
            "sse_customer_key_base64", "sse_kms_key_id", "unsigned_payload", "virtual_hosted_style_request",
        ),
        ("access_key_id", "secret_access_key", "session_token", "sse_customer_key_base64"),
        {
            "region": ("region", "default_region"),
            "endpoint": ("endpoint_url_s3", "endpoint_url", "endpoint"),
            "session_token": ("session_token", "token"),
        },
        also=("s3a", "s3n"), is_aws=True, conditions_unless=frozenset({"endpoint"}),
        ordered_unless=frozenset({"endpoint", "s3_express"}), prefixed=frozenset({"allow_http"}), delta_rs={"endpoint": "endpoint_url"},
    ),
    "gs": StoreKind(
        "Google Cloud Storage", "gs://bucket/prefix", "GCSStore",
        ("google_",),
        ("service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature"),
        ("base_url",),
        ("service_account_key", "bearer_token"),
        {"service_account": ("service_account", "service_account_path")},
        also=("gcs",), ordered_unless=frozenset(), tag_is_version=True,
    ),
    "abfss": StoreKind(
        "Azure Storage", "abfss://container@account.dfs.core.windows.net/prefix", "AzureStore",
        ("azure_storage_", "azure_"),
        (
            "account_key", "client_id", "client_secret", "tenant_id", "sas_key", "token", "credential_type", "federated_token_file",
            "use_azure_cli", "skip_signature", "object_id", "msi_resource_id",
        ),
        (
            "authority_host", "endpoint", "msi_endpoint", "use_emulator", "use_fabric_endpoint", "encryption_key", "disable_tagging",
            "fabric_token_service_url", "fabric_workload_host", "fabric_session_token", "fabric_cluster_identifier",
        ),
        ("account_key", "client_secret", "sas_key", "token", "encryption_key", "fabric_session_token"),
        {
            "account_key": ("account_key", "access_key", "master_key"),
            "sas_key": ("sas_key", "sas_token"),
            "tenant_id": ("tenant_id", "authority_id"),
            "msi_endpoint": ("msi_endpoint", "identity_endpoint"),
        },
        also=("abfs", "az", "azure", "adl", "wasb", "wasbs"), authority=_CONTAINER, by_url=True, quotes_tags=True,
    ),
}  # fmt: skip
"""By the schemes of their URLs."""
