"""What a callback is given besides its subject: options, where it is, and the way to write (`LogicalDecodingContext` in
`replication/logical.h`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from tailrace.dataclass import dataclass
from tailrace.errors import PluginError, TailraceError
from tailrace.model import Lsn, Relation
from tailrace.plugins.callbacks.catalogs import CatalogReader, CatalogRow, HistoricSnapshot


@dataclass(slots=True)
class OutputOptions:
    """What a plugin says of itself in `startup` (`OutputPluginOptions`). Binary output may hold any bytes; other output is
    text."""

    binary_output: bool = False
    receive_rewrites: bool = False


class _Buffer:
    """What is written next: text, or bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: str | bytes) -> None:
        self._parts.append(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)

    def clear(self) -> None:
        self._parts.clear()

    def value(self) -> bytes:
        return b"".join(self._parts)


@dataclass(slots=True)
class Context:
    """`options` are those that the stream was started with; `slot` is empty where there is none. Output: `prepare_write`, then
    `out.write` as often as is good, then `write`, which makes a row of it; several make several rows. `emit` does all three."""

    plugin: str = ""
    slot: str = ""
    major: int = 0
    options: Mapping[str, str | None] = field(default_factory=dict)
    binary_output: bool = False
    out: _Buffer = field(default_factory=_Buffer)
    written: list[bytes] = field(default_factory=list)
    _accepts: bool = False
    _prepared: bool = False
    _is_alone: bool = False
    _reader: CatalogReader | None = None
    _snapshot: HistoricSnapshot | None = None

    def catalog(self, name: str | int, *columns: str) -> Iterator[CatalogRow]:
        """The rows of a catalog, or of a user catalog table, as the callback's snapshot sees them: with what was committed before,
        and what the transaction itself has done by then. Of all columns, or of these. Values are like those of changes.

        Raises UsageError for a table that is no catalog, MissingHistory for rows that are not known, PluginError outside of the
        callbacks of a transaction and in plugins that are parallel."""
        reader, snapshot = self._reading()
        return reader.rows(name, columns, snapshot)

    def relation(self, name: str | int) -> Relation:
        """The relation of a name or an oid, as the callback's snapshot sees it. Raises as `catalog` does."""
        reader, snapshot = self._reading()
        return reader.relation(name, snapshot)

    def _reading(self) -> tuple[CatalogReader, HistoricSnapshot]:
        if self._is_alone or (self._snapshot is not None and self._reader is None):
            raise PluginError(
                "catalogs can only be read by plugins that are called in order", hint="This one is called in workers (parallel)."
            )
        if self._reader is None or self._snapshot is None:
            raise PluginError("catalogs can only be read in begin, change, truncate, message, prepare and commit callbacks")
        return self._reader, self._snapshot

    def reads(self, reader: CatalogReader | None, snapshot: HistoricSnapshot | None) -> None:
        """What `catalog` and `relation` read from now on."""
        self._reader, self._snapshot = reader, snapshot

    def prepare_write(self, last_write: bool = True) -> None:
        """Raises PluginError outside of callbacks that may write."""
        if not self._accepts:
            raise PluginError("writes are only accepted in commit, begin and change callbacks")
        self.out.clear()
        self._prepared = True

    def write(self, last_write: bool = True) -> None:
        """Make a row of what is in `out`. Raises PluginError without `prepare_write`, and for text that is none."""
        if not self._prepared:
            raise PluginError("OutputPluginPrepareWrite needs to be called before OutputPluginWrite")
        row = self.out.value()
        if not self.binary_output:
            _check_text(row)
        self.written.append(row)
        self._prepared = False

    def emit(self, data: str | bytes) -> None:
        """Write one row: prepare_write, out.write and write in one."""
        if not self._accepts:
            self.prepare_write()
        row = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if not self.binary_output and not (isinstance(data, str) and data.isascii()):
            _check_text(row)
        self.written.append(row)

    def alone(self) -> Context:
        """The same for another thread, with output of its own."""
        return replace(self, out=_Buffer(), written=[], _is_alone=True, _reader=None, _snapshot=None)

    def take_written(self) -> list[bytes]:
        """The rows since the last call."""
        rows, self.written = self.written, []
        return rows

    def call(self, callback: str, lsn: int | None, function: Callable[..., Any], *args: Any, writes: bool = True) -> Any:
        """Call a callback. What it raises says where, in the server's words (`output_plugin_error_callback`)."""
        self._accepts = writes
        try:
            return function(self, *args)
        except Exception as error:
            raise self.located(error, callback, lsn) from error
        finally:
            self._accepts = self._prepared = False

    def located(self, error: Exception, callback: str, lsn: int | None) -> TailraceError:
        """What a callback raised, saying where."""
        if not isinstance(error, TailraceError):
            error = PluginError(f"{type(error).__name__}: {error}")
        slot = f'slot "{self.slot}", ' if self.slot else ""
        where = f'{slot}output plugin "{self.plugin}", in the {callback} callback'
        error.context = error.context or (where if lsn is None else f"{where}, associated LSN {Lsn(lsn)}")
        error.lsn = error.lsn if error.lsn is not None else lsn
        return error


def _check_text(row: bytes) -> None:
    try:
        row.decode()
    except UnicodeDecodeError as error:
        shown = " ".join(f"0x{byte:02x}" for byte in row[error.start : max(error.end, error.start + 1)])
        raise PluginError(
            f'invalid byte sequence for encoding "UTF8": {shown}',
            hint="Set binary_output in startup to write bytes.",
            sqlstate="22021",
        ) from None
