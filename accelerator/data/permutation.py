"""A random order of numbers that is computed, not stored."""

from math import isqrt
from random import Random

_ROUNDS = 6
"""With six rounds, statistics cannot distinguish an order of ten samples or more from a true
shuffle; with four rounds they can."""


class Permutation:
    """The numbers below `size` in an order that a key determines, without a list in memory.

    A number is a row and a column of the smallest table that holds all numbers. In each round the
    row moves by the entry of a random table for the column, and then the column by the entry of
    another table for the row. Each of these steps can be undone, so no two numbers get one place. A
    result beyond the last number goes through the rounds again. Memory use is a few tables of the
    square root of `size`.

    Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002 (generalised
    Feistel, cycle walking). Python promises that the sequence of `Random.random` never changes, so
    an order is equal on every host and with every Python.
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
