"""A random order of numbers that takes no list of them."""

from math import isqrt
from random import Random

_ROUNDS = 6
"""Statistics tell no order of ten samples or more from a true shuffle; with four, they do."""


class Permutation:
    """The numbers below `size` in an order that a key decides, with no list of them.

    A number is a row and a column of a table that just holds them all. In turns the row moves by
    what a random table has for the column, and the column by what another has for the row, each
    of which can be undone: so no two numbers meet. What lands behind the last number goes round
    once more. Memory is some tables of the square root of `size`.

    Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002 (generalised
    Feistel, cycle walking). `Random.random` is what Python promises never to change, so that an
    order is the same on every host and with every Python.
    """

    def __init__(self, size: int, key: str) -> None:
        self._size = size
        self._rows = isqrt(size - 1) + 1
        self._columns = -(-size // self._rows)
        dice = Random(key)
        self._rounds = [self._moves(dice) for _ in range(_ROUNDS)]

    def __getitem__(self, place: int) -> int:
        rows, columns = self._rows, self._columns
        while True:
            row, column = divmod(place, columns)
            for by_column, by_row in self._rounds:
                row = (row + by_column[column]) % rows
                column = (column + by_row[row]) % columns
            place = row * columns + column
            if place < self._size:
                return place

    def _moves(self, dice: Random) -> tuple[list[int], list[int]]:
        by_column = [int(dice.random() * self._rows) for _ in range(self._columns)]
        return by_column, [int(dice.random() * self._columns) for _ in range(self._rows)]
