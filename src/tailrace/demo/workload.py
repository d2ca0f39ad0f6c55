"""A shop on a busy day: what four clients do to a database while the demo looks on.

In: a way to connect. Out: WAL with everything that makes decoding interesting: concurrent and long transactions, savepoints,
rollbacks, TOASTed texts, keys that change, tables without a key, a TRUNCATE, columns that come and go in the middle, and one
transaction larger than all others together.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

CLIENTS = 4
BULK_ROWS = 200_000
KEYS = {
    "customers": ("id",),
    "products": ("sku",),
    "orders": ("id",),
    "order_items": ("order_id", "line"),
    "reviews": ("id",),
    "visits": (),
}
"""The tables and their keys; visits have none (REPLICA IDENTITY FULL)."""

SCHEMA = """
CREATE TYPE order_status AS ENUM ('new', 'paid', 'sent', 'returned');
CREATE TABLE customers (
    id bigint PRIMARY KEY, name text NOT NULL, city text, joined timestamptz NOT NULL, balance numeric(12,2) DEFAULT 0);
CREATE TABLE products (
    sku text PRIMARY KEY, title text, price numeric(10,2), tags text[], attributes jsonb, stock integer);
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer bigint, status order_status, placed timestamptz,
    legacy_code text DEFAULT 'n/a', express boolean);
CREATE TABLE order_items (
    order_id bigint, line smallint, sku text, quantity integer, price numeric(10,2), PRIMARY KEY (order_id, line));
CREATE TABLE reviews (
    id uuid PRIMARY KEY, sku text, stars smallint, body text, written date, helpful integer DEFAULT 0);
CREATE TABLE visits (at timestamp, page text, client integer);
ALTER TABLE visits REPLICA IDENTITY FULL;
ALTER TABLE reviews ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE PUBLICATION everything FOR ALL TABLES;
"""

OPENING = """
BEGIN;
INSERT INTO customers VALUES (-1, 'Ada', 'London', '2026-01-01 09:00+00'), (-2, 'Grace', 'New York', '2026-01-01 09:05+00');
INSERT INTO products VALUES ('mill-1', 'Water mill', 1999.00, '{wood,iron}', '{"blades": 12, "oak": true}', 3);
COMMIT;
BEGIN;
INSERT INTO orders VALUES (-1, -1, 'new', '2026-01-02 10:00+00', DEFAULT, true);
INSERT INTO order_items VALUES (-1, 1, 'mill-1', 1, 1999.00);
SAVEPOINT two;
INSERT INTO order_items VALUES (-1, 2, 'mill-1', 9, 1.00);
ROLLBACK TO SAVEPOINT two;
UPDATE products SET stock = stock - 1 WHERE sku = 'mill-1';
COMMIT;
UPDATE orders SET status = 'paid' WHERE id = -1;
UPDATE products SET sku = 'mill-I' WHERE sku = 'mill-1';
INSERT INTO visits VALUES ('2026-01-02 10:01', '/checkout', -1);
DELETE FROM visits;
DELETE FROM customers WHERE id = -2;
"""
"""A few small transactions to look at, before it gets busy."""

AFTERNOON = """
UPDATE orders SET status = 'paid' WHERE id % 7 = 0;
UPDATE order_items SET quantity = quantity + 1 WHERE order_id % 40 = 3;
DELETE FROM reviews WHERE stars = 1;
INSERT INTO customers SELECT n, 'Customer ' || n, 'Gouda', clock_timestamp(), n / 100.0 FROM generate_series(2000000, 2004999) n;
UPDATE products SET sku = sku || '-b', stock = stock - 1 WHERE price < 100;
INSERT INTO visits SELECT clock_timestamp(), '/product/' || n % 2000, n % 4 FROM generate_series(1, 5000) n;
DELETE FROM visits WHERE client = 2
"""
"""What goes on while the shop is replicated."""

_PRODUCTS = """
INSERT INTO products
SELECT 'sku-' || n, 'Product ' || n, (n % 900) + 0.99, ARRAY['tag' || n % 7, 'tag' || n % 11],
       jsonb_build_object('weight', n % 50, 'colours', jsonb_build_array('red', 'blue'), 'fragile', n % 3 = 0), 1000
FROM generate_series(1, 2000) n
"""
_ORDER = "INSERT INTO orders (id, customer, status, placed, express) VALUES (%s, %s, 'new', clock_timestamp(), %s)"
_ITEMS = """
INSERT INTO order_items
SELECT %s, n, 'sku-' || 1 + (%s + n) %% 2000, 1 + n %% 5, (n %% 90) + 0.5 FROM generate_series(1, %s) n
"""
_REVIEW = """
INSERT INTO reviews
SELECT gen_random_uuid(), 'sku-' || %s, %s, string_agg(md5(random()::text), ' '), '2026-05-01' FROM generate_series(1, %s)
"""
_BULK = f"""
INSERT INTO order_items
SELECT 1000000 + n / 20, n % 20, 'sku-' || 1 + n % 2000, 1 + n % 9, (n % 500) + 0.25 FROM generate_series(1, {BULK_ROWS}) n
"""


def open_shop(connection: psycopg.Connection[Any]) -> None:
    """Create the tables and run the opening scene."""
    for script in (SCHEMA, OPENING):
        run_script(connection, script)


def run_script(connection: psycopg.Connection[Any], script: str) -> None:
    """Statement by statement, each in a transaction of its own unless it says otherwise."""
    for statement in script.split(";\n"):
        if statement.strip():
            connection.execute(statement.encode())


def rush(connect: Callable[[], psycopg.Connection[Any]], transactions: int, progress: Callable[[], None]) -> None:
    """The busy day: `transactions` by each of the clients, at once, and the large one beside them. `progress` is called after
    each."""
    with connect() as connection:
        connection.execute(_PRODUCTS)
    barrier = threading.Barrier(CLIENTS)

    def work(client: int) -> None:
        with _begun(connect, barrier) as connection:
            for number, deed in enumerate(_day(client, transactions)):
                try:
                    with connection.transaction():
                        deed(connection)
                except (_ChangedItsMind, psycopg.errors.DeadlockDetected):
                    pass
                if client == 0:
                    _alter(connection, number, transactions)
                progress()

    with ThreadPoolExecutor(CLIENTS) as pool:
        failures = [done.exception() for done in [pool.submit(work, client) for client in range(CLIENTS)]]
    for failure in sorted(filter(None, failures), key=lambda each: isinstance(each, threading.BrokenBarrierError)):
        raise failure


@contextmanager
def _begun(connect: Callable[[], psycopg.Connection[Any]], barrier: threading.Barrier) -> Iterator[psycopg.Connection[Any]]:
    """Connected, once all are; where one does not get in, the others do not wait for it."""
    try:
        connection = connect()
    except BaseException:
        barrier.abort()
        raise
    with connection:
        barrier.wait()
        yield connection


class _ChangedItsMind(Exception):
    """A customer leaves: the transaction rolls back."""


def _alter(connection: psycopg.Connection[Any], number: int, transactions: int) -> None:
    """What changes while the shop is open."""
    if number == transactions // 3:
        connection.execute("ALTER TABLE customers ADD COLUMN points integer DEFAULT 100")
    elif number == transactions // 2:
        connection.execute("ALTER TABLE orders DROP COLUMN legacy_code")
    elif number == transactions * 2 // 3:
        connection.execute("TRUNCATE visits")


def _day(client: int, transactions: int) -> Iterator[Callable[[psycopg.Connection[Any]], None]]:
    chance = random.Random(client)
    for number in range(transactions):
        if client == 1 and number == transactions // 2:
            yield lambda connection: _send(connection, _BULK)
        yield _visit(client, number, chance)


def _send(connection: psycopg.Connection[Any], sql: str, *values: object) -> None:
    connection.execute(sql, values or None)


def _visit(client: int, number: int, chance: random.Random) -> Callable[[psycopg.Connection[Any]], None]:
    """One transaction of a customer of this client's own, so that clients meet only at the products' stock."""
    order = number * CLIENTS + client
    fate, sku, other = chance.random(), 1 + chance.randrange(2000), chance.randrange(order + 1) // CLIENTS * CLIENTS + client

    def deed(connection: psycopg.Connection[Any]) -> None:
        page = f"/product/{sku}"
        _send(connection, "INSERT INTO visits VALUES (clock_timestamp(), %s, %s)", page, client)
        _send(connection, "INSERT INTO customers VALUES (%s, %s, 'Delft', clock_timestamp())", order, f"Customer {order}")
        _send(connection, _ORDER, order, order, fate < 0.5)
        _send(connection, _ITEMS, order, sku, 40 + sku % 40)
        if fate < 0.2:
            _send(connection, _REVIEW, sku, sku % 5 + 1, 100 + sku % 200)
        elif fate < 0.3:
            _send(connection, "SAVEPOINT basket")
            _send(connection, "UPDATE order_items SET quantity = 0 WHERE order_id = %s", order)
            _send(connection, "ROLLBACK TO SAVEPOINT basket")
            _send(connection, "DELETE FROM order_items WHERE order_id = %s AND line > 30", order)
        elif fate < 0.5:
            _send(connection, "UPDATE order_items SET quantity = quantity + 1 WHERE order_id = %s", other)
            _send(connection, "UPDATE orders SET status = 'sent' WHERE id = %s", other)
        elif fate < 0.55:
            _send(connection, "UPDATE orders SET id = -10 - id, status = 'returned' WHERE id = %s AND id > 0", other)
        elif fate < 0.6:
            raise _ChangedItsMind
        elif fate < 0.65:
            _send(connection, "DELETE FROM visits WHERE client = %s AND page = %s", client, page)
        _send(connection, "UPDATE customers SET balance = balance - 9.99 WHERE id = %s", other)
        _send(connection, "UPDATE reviews SET helpful = helpful + 1 WHERE sku = %s AND stars > 2", f"sku-{sku}")
        _send(connection, "UPDATE products SET stock = stock - 1 WHERE sku = %s", f"sku-{sku}")

    return deed
