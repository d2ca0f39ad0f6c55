"""The half of an output plugin that prints changes of tables, as columns: far and wide, in workers, in no order.

PostgreSQL calls `change_cb` once a change, in commit order. A `Formatter` is called once a batch, so that what it prints of a
change can only depend on the change and on the options; the other half, `OutputPlugin`, knows the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

from tailrace.dataclass import dataclass
from tailrace.decode import Batch
from tailrace.model import Relation
from tailrace.types.style import NameOf, TextStyle
from tailrace.types.values import Texts


@dataclass(frozen=True)
class Formatter:
    """Prints changes of tables, values in a `style`, text of which a batch has in the encoding `codec`. It travels to workers, and remembers nothing
    from batch to batch."""

    style: TextStyle
    codec: str

    needs_relations: ClassVar = False
    """Whether the driver must know of which relation each row is."""

    def with_names(self, names: NameOf | None, codec: str) -> Self:
        """One that prints these names for regclass and its kin, and reads text in this encoding."""
        return replace(self, style=replace(self.style, names=names), codec=codec)

    @property
    def checks_values(self) -> bool:
        """Whether values themselves are checked to be the client's UTF-8, where a database does not know what its bytes mean
        (SQL_ASCII): of plugins that convert value by value, as the server's do with pq_sendtext. What others print is checked
        where it leaves as text."""
        return False

    def relations_of(self, batch: Batch) -> Sequence[Relation]:
        """Of which relations rows are, to the driver."""
        return batch.relations

    def warnings(self, batch: Batch) -> frozenset[str]:
        """What is raised with elog(WARNING) for changes that the plugin leaves out: once a stream, which goes on."""
        return frozenset()

    def change_texts(self, batch: Batch) -> Texts:
        """One text per change. The batch may be of thousands of tables (partitions)."""
        raise NotImplementedError
