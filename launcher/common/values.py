"""`NamedTuple` without the module `typing`, which takes longer to import than all of a node's half.

The same thing to a reader and to a type checker: a class body of annotated fields, defaults and
methods becomes an immutable tuple with names.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _Maker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults)
            return type(name, (made,), {**body, "__annotations__": fields, "__slots__": ()})

    class NamedTuple(metaclass=_Maker):
        """The base to write; what comes of it is a plain tuple."""


__all__ = ["NamedTuple"]
