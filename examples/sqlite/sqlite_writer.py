"""A writer: what a plugin prints, as rows of a table in SQLite, each once. Option `path` names the database."""

import json
import sqlite3

from tailrace.errors import UsageError
from tailrace.model import Lsn
from tailrace.replication.writers import Writer
from tailrace.slots.consumer_session import ConsumerSession


class Sqlite(Writer):
    """`position` is that of what is whole: the number of its last row, its LSN, and the session to go on with."""

    def __init__(self, options):
        path = options.get("path")
        super().__init__({name: value for name, value in options.items() if name != "path"})
        if not path:
            raise UsageError('writer option "path" missing')
        self.db = sqlite3.connect(path)

    def begin(self, slot):
        super().begin(slot)
        self.key = (f"{slot.identity} of {slot.system}",)
        self.db.execute("CREATE TABLE IF NOT EXISTS change (number INTEGER PRIMARY KEY, lsn TEXT, xid INTEGER, data BLOB)")
        self.db.execute("CREATE TABLE IF NOT EXISTS position (slot TEXT PRIMARY KEY, number INTEGER, lsn TEXT, session TEXT)")
        stored = self.db.execute("SELECT number, lsn, session FROM position WHERE slot = ?", self.key).fetchone()
        self.position = (self._last(), self.begins_at, self.session)
        if stored is not None and Lsn.parse(stored[1]) >= self.begins_at:
            self.begins_at, self.session = Lsn.parse(stored[1]), ConsumerSession.of(json.loads(stored[2]))
            self.position = (stored[0], self.begins_at, self.session)

    def write(self, rows):
        self.db.executemany("INSERT INTO change (lsn, xid, data) VALUES (?, ?, ?)", ((str(row.lsn), row.xid, row.data) for row in rows))

    def whole(self, lsn, session):
        self.position = (self._last(), lsn, session)

    def durable_upto(self):
        """Rows and position in one transaction; a half of one that came after what is whole is not kept."""
        number, lsn, session = self.position
        self.db.execute("DELETE FROM change WHERE number > ?", (number,))
        facts = json.dumps(session.facts())
        self.db.execute("INSERT OR REPLACE INTO position VALUES (?, ?, ?, ?)", (*self.key, number, str(lsn), facts))
        self.db.commit()
        return lsn

    def close(self):
        self.db.close()

    def _last(self):
        return self.db.execute("SELECT coalesce(max(number), 0) FROM change").fetchone()[0]
