"""What an output plugin is asked for (Logical Decoding, Output Plugins; `replication/output_plugin.h`): the manual's callbacks, many at a time.

In: changes of a table as columns, transactions, TRUNCATEs, logical messages. Out: a text for each of them. PostgreSQL calls a plugin once a change,
in commit order. Here workers have it print the changes of a stretch, a table at a time and in no order; the driver has it print what begins and ends
transactions and what stands between their rows, and puts all that in commit order. So what is printed of a change can only depend on the change
and on the options.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tailrace.decode import Alike, Batch
from tailrace.errors import UsageError
from tailrace.plan.demand import Demand
from tailrace.plan.events import LogicalMessage, Truncation
from tailrace.plugins.picking import taken
from tailrace.transactions.fates import Transactions, TwoPhase
from tailrace.types.style import NameOf, TextStyle
from tailrace.types.values import Texts

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class OutputPlugin:
    """Base of plugins. One instance lives as long as its stream, with the driver; workers have copies, which remember nothing from batch to batch."""

    name = ""
    style = TextStyle()
    """How values are printed. Set before `startup`."""
    two_phase = False
    """Whether it is told of prepared transactions at PREPARE. A slot decides that, not the plugin's options; set before the plan is made."""
    two_phase_since = 0
    """What was prepared before this LSN is told at its commit, PREPARE included; a slot's, too."""
    skips_empty_transactions = False
    only_local = False
    """Whether it wants nothing that was replicated from elsewhere, as the manual's filter_by_origin_cb says for it."""
    messages_begin = True
    """Where empty transactions are skipped, whether a message makes its transaction worth a BEGIN."""
    receives_rewrites = False
    """Whether it wants to see the rows that ALTER TABLE or REFRESH MATERIALIZED VIEW write into the new file of a table."""
    writes_binary = False
    """Whether its output is bytes, and not text in the encoding of the database."""

    def startup(self, options: Mapping[str, str | None], major: int) -> None:
        """Take the options, refusing unknown names and values. `major` is the source's."""
        raise NotImplementedError

    @property
    def demand(self) -> Demand:
        """What it asks of a plan, once it has its options. It is given no other plan."""
        return Demand(
            rewrites=self.receives_rewrites, only_local=self.only_local, search_path=self.style.schemas,
            two_phase=TwoPhase(self.two_phase_since, self.filter_prepare) if self.two_phase else None,
        )  # fmt: skip

    def knowing(self, names: NameOf | None, codec: str) -> OutputPlugin:
        """A copy that prints these names for regclass and its kin, and reads text in this encoding; the plugin itself if it prints no values."""
        return self

    def change_texts(self, batch: Batch) -> Texts:
        """One text per change of a table. Called in workers, in no order."""
        raise NotImplementedError

    def alike_texts(self, alike: Alike) -> Texts:
        """The same of tables with the same columns, of which there may be thousands (partitions). This is what workers call; a plugin that can
        print all of them at once overrides it."""
        texts = [self.change_texts(batch) for batch in alike.batches()]
        if len(texts) == 1:
            return texts[0]
        place = np.empty(len(alike.number), np.int64)
        place[alike.by_relation] = np.arange(len(place))
        return taken(texts, place)

    def begin_texts(self, transactions: Transactions) -> Texts:
        """One text per transaction. Called by the driver, as all that follow."""
        raise NotImplementedError

    def commit_texts(self, transactions: Transactions) -> Texts:
        """One text per transaction."""
        raise NotImplementedError

    @staticmethod
    def filter_prepare(gid: str) -> bool:
        """Whether a prepared transaction is to wait for its commit, like any other, instead of coming at PREPARE. Static where options do not matter:
        then plugins of one kind have equal demands."""
        return False

    def prepare_texts(self, transactions: Transactions) -> Texts:
        """In two phases, what ends each of these instead of `commit_texts`."""
        raise NotImplementedError

    def commit_prepared_texts(self, transactions: Transactions) -> Texts:
        """In two phases, one text per COMMIT PREPARED."""
        raise NotImplementedError

    def rollback_prepared_texts(self, transactions: Transactions) -> Texts:
        raise NotImplementedError

    def truncate_text(self, truncation: Truncation) -> str:
        raise NotImplementedError

    def message_text(self, message: LogicalMessage) -> bytes:
        raise NotImplementedError


def parse_bool(name: str, value: str | None) -> bool:
    """A boolean as SQL reads it (unique prefixes, any case); a missing value means true."""
    if value is None:
        return True
    text = value.strip().lower()
    meanings = {meaning for word, meaning in _BOOLEANS.items() if text and word.startswith(text)}
    if text == "o" or len(meanings) != 1:
        raise UsageError(f'could not parse value "{value}" for parameter "{name}"', sqlstate="22023")
    return meanings.pop()
