"""A server at work: transactions of several sizes on a table `t (id serial, v text)`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from support.servers import Server


@contextmanager
def loaded(server: Server) -> Iterator[None]:
    """Transactions of several sizes, as long as the block lasts, and through restarts of the server."""
    done = threading.Event()

    def work(number: int) -> None:
        dice = random.Random(number)
        while not done.is_set():
            with suppress(psycopg.OperationalError), server.connect() as connection:
                while not done.is_set():
                    _transact(connection, dice)
                    time.sleep(dice.uniform(0, 0.05))
            time.sleep(0.1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _transact(connection: psycopg.Connection[tuple[object, ...]], dice: random.Random) -> None:
    with connection.transaction(force_rollback=dice.random() < 0.1):
        rows = dice.choice((1, 2, 30, 1000))
        connection.execute("INSERT INTO t (v) SELECT 'row ' || g FROM generate_series(1, %s) g", [rows])
        if dice.random() < 0.1:
            connection.execute("UPDATE t SET v = v || '!' WHERE id % 97 = 0")
        if dice.random() < 0.05:
            connection.execute(f"CREATE TABLE t{dice.randrange(10**12)} AS SELECT 1 AS a".encode())
