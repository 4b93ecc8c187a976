"""`NamedTuple` without the module `typing`, which takes longer to import than the node launcher.

It works alike for readers and type checkers: a class body of annotated fields, defaults and methods
becomes an immutable tuple with names. `collections.namedtuple` compiles code for each class; for
all classes of dsrun, that takes a third of an interpreter's start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    # The fastest attribute access; every Python has it in `collections`, in C or as a property.
    from collections import _tuplegetter

    class _Record(tuple):
        """The base of these classes, with the methods of a namedtuple."""

        __slots__ = ()

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                values += cls._rest(values, named)
            return tuple.__new__(cls, values)

        @classmethod
        def _rest(cls, values, named):
            defaults, fields = cls._field_defaults, cls._fields[len(values) :]
            try:
                rest = [named.pop(name) if name in named else defaults[name] for name in fields]
            except KeyError as missing:
                raise TypeError(f"{cls.__name__}: {missing} is missing") from None
            if named or len(values) > len(cls._fields):
                extra = [*values[len(cls._fields) :], *named]
                raise TypeError(f"{cls.__name__}: too many values, or given twice: {extra}")
            return tuple(rest)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, **named):
            fields = self._asdict()
            if not named.keys() <= fields.keys():
                raise TypeError(f"{type(self).__name__} has not all of {', '.join(named)}")
            return type(self)(*(fields | named).values())

        def _asdict(self):
            return dict(zip(self._fields, self))  # noqa: B905 - strict takes longer

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = ", ".join(f"{field}={value!r}" for field, value in self._asdict().items())
            return f"{type(self).__name__}({shown})"

    class _Maker(type):
        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            body |= {field: _tuplegetter(at, "") for at, field in enumerate(fields)}
            body |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return type(name, (_Record,), {**body, "__slots__": ()})

    class NamedTuple(metaclass=_Maker):
        """The base class of records; the resulting class is a tuple."""


__all__ = ["NamedTuple"]
