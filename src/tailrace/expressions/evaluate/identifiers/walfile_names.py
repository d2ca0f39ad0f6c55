"""pg_walfile_name and pg_walfile_name_offset (`access/transam/xlogfuncs.c`): of the timeline on which the log ends."""

from __future__ import annotations

from tailrace.expressions.evaluate.fmgr.array_and_record import RecordValue
from tailrace.expressions.evaluate.fmgr.function_calls import FunctionCallInfo, Implementation, made, rows
from tailrace.expressions.evaluate.fmgr.refusals import refused
from tailrace.expressions.evaluate.fmgr.vectors import DEFAULT_COLLATION
from tailrace.majors import WALFILE_OF_BOUNDARY, supports
from tailrace.types import oids

_IDS = 1 << 32


def _walfile_name(call: FunctionCallInfo, with_offset: bool) -> Implementation:
    timeline, size = call.facts.timeline, call.facts.segment_size
    before = 0 if supports(call.facts.style.major, WALFILE_OF_BOUNDARY) else 1
    if not size:
        raise refused(f"function {call.function.label} where no log says its timeline")

    def run(lsn: int) -> str | RecordValue:
        high, low = divmod((lsn - before) % (1 << 64) // size, _IDS // size)
        name = f"{timeline:08X}{high:08X}{low:08X}"
        return RecordValue((oids.TEXT, oids.INT4), (name, lsn % size), (DEFAULT_COLLATION, 0)) if with_offset else name

    return rows(run, True)


FUNCTIONS: dict[str, Implementation] = {
    "pg_walfile_name": made(lambda call: _walfile_name(call, False)),
    "pg_walfile_name_offset": made(lambda call: _walfile_name(call, True)),
}
