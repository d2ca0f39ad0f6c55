"""The changes of a large window put into a table, chunk by chunk in their order, where workers have done what there is to do with rows.

In: an edit of the table's files, and the files of its changes that were staged. Out: counts. All chunks are reduced at once. A chunk that updates
rows without all of their values (TOAST) waits for those before it, and for what these make of the rows that it asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from tailrace.dataclass import dataclass
from tailrace.lake.chunk_tasks import ChunkDone, answered_chunk, net_of_chunk
from tailrace.lake.chunks import StagedChanges, chunks_of
from tailrace.lake.files.edit_tasks import KeyFile
from tailrace.lake.files.wide_edit import WideEdit
from tailrace.lake.files.workers import Workers
from tailrace.lake.staging import FileWritten


@dataclass(frozen=True, slots=True)
class ChangesApplied:
    """Rows that came or were replaced, and keys (or rows) that went; columns that can have no statistics, and how many times none can hold."""

    upserts: int
    deletes: int
    unbounded: frozenset[str]
    beyond: Mapping[str, int]


def apply_wide(edit: WideEdit, staged: StagedChanges, files: Sequence[FileWritten], workers: Workers) -> ChangesApplied:
    """Put these files' changes into the table."""
    chunks = list(chunks_of(files, workers.chunk_bytes, staged.read))
    counts, beyond, unbounded = Counter[str](), Counter[str](), frozenset[str]()
    all_done = list(workers.run(partial(net_of_chunk, staged, edit.data), chunks))
    for chunk, reduced in zip(chunks, all_done, strict=True):
        done = reduced
        if (asked := reduced.asks) is not None:
            found = edit.find_rows(asked.keys, asked.columns)
            (done,) = workers.run(partial(answered_chunk, staged, edit.data), [(chunk, asked, found)])
        _apply(edit, done, is_keyed=bool(staged.key))
        counts.update(upserts=done.upserts, deletes=done.deletes)
        beyond.update(done.beyond)
        unbounded |= done.unbounded
    edit.settle()
    edit.leave_out_statistics(unbounded)
    return ChangesApplied(counts["upserts"], counts["deletes"], unbounded, beyond)


def _apply(edit: WideEdit, done: ChunkDone, *, is_keyed: bool) -> None:
    """What the chunk does to what there is of the table by now."""
    if done.gone is not None:
        if is_keyed:
            edit.delete_keys(KeyFile(done.gone, is_staged=True))
        else:
            edit.remove_copies(done.gone, done.copies)
    if is_keyed:
        for file in done.files:
            edit.delete_keys(KeyFile(file, is_staged=False))
    edit.adopt(done.files)
