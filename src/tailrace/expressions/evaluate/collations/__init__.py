"""What a collation says of characters and of their order, asked of whom PostgreSQL asks: the C library, ICU, or tables of its own."""

from tailrace.expressions.evaluate.collations.choosing import letters_of, order_of
from tailrace.expressions.evaluate.collations.collation import Collation, Compare, Problem
from tailrace.expressions.evaluate.collations.letters import ASCII, Letters

__all__ = ["ASCII", "Collation", "Compare", "Letters", "Problem", "letters_of", "order_of"]
