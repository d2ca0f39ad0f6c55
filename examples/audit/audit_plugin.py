"""An output plugin: one JSON line for each change of the tables that option `tables` names, or of all."""

import json

from tailrace.errors import UsageError
from tailrace.plugins.callbacks import Plugin


class Audit(Plugin):
    parallel = True

    def startup(self, ctx, options, is_init):
        unknown = ctx.options.keys() - {"tables"}
        if unknown:
            raise UsageError(f'option "{unknown.pop()}" is unknown')
        self.tables = {name.strip() for name in (ctx.options.get("tables") or "").split(",")} - {""}

    def begin(self, ctx, txn):
        pass

    def change(self, ctx, txn, relation, change):
        if self.tables and str(relation) not in self.tables:
            return
        row = change.new or {}
        before = {name: value for name, value in (change.old or {}).items() if row.get(name) != value}
        ctx.prepare_write(last_write=True)
        ctx.out.write(json.dumps({"table": str(relation), "what": change.kind, "row": row, "before": before, "xid": txn.xid}))
        ctx.write(last_write=True)

    def commit(self, ctx, txn, commit_lsn):
        pass
