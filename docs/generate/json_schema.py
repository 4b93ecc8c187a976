"""JSON schemas of types: TypedDicts, NamedTuples, enums, literals, and what these consist of.

Classes become definitions. What describes a field is its text below `Attributes:` in the docstring
of its class. `Annotated[int, ("minimum", 0)]` adds a keyword to the schema of a type.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    More = Callable[[Any, str], dict[str, Any]]

PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    NoneType: {"type": "null"},
    object: {},
    Any: {},
}


class Definitions:
    """The definitions of one schema.

    Attributes:
        made: the definitions by name, in the order in which they were first needed.
    """

    def __init__(self, more: More | None = None) -> None:
        """Begin with none.

        Args:
            more: returns what to add to the schema of a field, given its class and its name; None
                for nothing.
        """
        self.made: dict[str, dict[str, Any]] = {}
        self._shapes: dict[str, Any] = {}
        self._more = more

    def reference(self, shape: Any) -> dict[str, Any]:
        """Return a reference to the definition of a class.

        Raises:
            ValueError: a field has no description, or another class has the same name.
        """
        name = definition_name(shape)
        if self._shapes.setdefault(name, shape) is not shape:
            raise ValueError(f"two classes with the name {shape.__name__}")
        if name not in self.made:
            self.made[name] = {}
            self.made[name] = self.object(shape)
        return {"$ref": f"#/$defs/{name}"}

    def object(
        self,
        shape: Any,
        first: Mapping[str, Any] | None = None,
        optional: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return the schema of a class.

        `first` are properties before those of the class, of which the `optional` may be missing.
        """
        hints, texts, before = type_hints(shape), field_texts(shape), first or {}
        lacking = [name for name in hints if name not in texts]
        if lacking:
            raise ValueError(f"{shape.__name__} does not describe {', '.join(lacking)}")
        needed = getattr(shape, "__required_keys__", hints)
        return {
            "description": summary(shape),
            "type": "object",
            "properties": {
                **before,
                **{
                    name: {
                        "description": texts[name],
                        **self.of(hint),
                        **(self._more(shape, name) if self._more else {}),
                    }
                    for name, hint in hints.items()
                },
            },
            "required": [
                *(name for name in before if name not in optional),
                *(name for name in hints if name in needed),
            ],
            "additionalProperties": False,
        }

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        if hint in PLAIN:
            return PLAIN[hint]
        if get_origin(hint) is not None:
            return self._generic(get_origin(hint), get_args(hint))
        if issubclass(hint, Enum):
            return {"enum": [one.value for one in hint]}
        return self.reference(hint)

    def _generic(self, origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the schema of a type with arguments."""
        if origin is Annotated:
            return self.of(args[0]) | dict(args[1:])
        if origin is Literal:
            return {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
        if origin in {typing.Union, UnionType}:
            return self._union(args)
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(args[1])}
        return self._array(origin, args)

    def _union(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return a schema with several types, or several schemas of which one fits."""
        several = [self.of(one) for one in args]
        types = [one["type"] for one in several if isinstance(one.get("type"), str)]
        if len(types) < len(several):
            return {"oneOf": several}
        merged = {name: value for one in several for name, value in one.items()}
        return {**merged, "type": types}

    def _array(self, origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the schema of a list, or of a tuple with a type for each item."""
        if origin is tuple and args[-1] is not Ellipsis:
            count = len(args)
            items = {"prefixItems": list(map(self.of, args)), "items": False}
            return {"type": "array", **items, "minItems": count}
        return {"type": "array", "items": self.of(args[0])}


def definition_name(shape: Any) -> str:
    """Return the name of a class as definitions have it: `rank_used` for `RankUsedJson`."""
    name = shape.__name__.removesuffix("Json")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def summary(shape: Any) -> str:
    """Return the first paragraph of the docstring of a class."""
    return _text((inspect.getdoc(shape) or "").partition("\n\n")[0])


def field_texts(shape: Any) -> dict[str, str]:
    """Return what the docstrings of a class, and of those that it inherits from, say of fields."""
    inherited = [field_texts(base) for base in _bases(shape)]
    found = re.findall(
        r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", inspect.getdoc(shape) or "", re.MULTILINE
    )
    own = {name: _text(text) for names, text in found for name in names.split(", ")}
    return {name: text for texts in (*inherited, own) for name, text in texts.items()}


def _text(text: str) -> str:
    """Return text of a docstring on one line, with the names of values that JSON has."""
    line = re.sub(r"\bNone\b", "null", " ".join(text.split())).replace("()", "[]")
    return line if line.startswith("dsrun ") else f"{line[:1].upper()}{line[1:]}"


def _bases(shape: Any) -> list[Any]:
    """Return the TypedDicts that one inherits from, which only its source tells."""
    names, module = _names(shape), ast.parse(inspect.getsource(sys.modules[shape.__module__]))
    classes = [one for one in module.body if isinstance(one, ast.ClassDef)]
    bases = [base for one in classes if one.name == shape.__name__ for base in one.bases]
    found = [names[ast.unparse(base)] for base in bases]
    return [one for one in found if typing.is_typeddict(one)]


def type_hints(shape: Any) -> dict[str, Any]:
    """Return the types of the fields of a class, in their order."""
    names = _names(shape)
    return typing.get_type_hints(shape, names, names, include_extras=True)


def _names(shape: Any) -> dict[str, Any]:
    """Return the names of the module of a class, with those that it has for type checkers.

    A name that is not there, as it is only for type checkers in another module, too, is left out.
    """
    module = sys.modules[shape.__module__]
    names = dict(vars(module))
    for one in ast.parse(inspect.getsource(module)).body:
        if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING":
            for statement in _one_by_one(one.body):
                with suppress(ImportError, NameError):
                    exec(compile(ast.Module([statement], []), module.__name__, "exec"), names)
    return names


def _one_by_one(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, those that import several names as one for each."""
    for one in body:
        if isinstance(one, ast.ImportFrom):
            for name in one.names:
                apart = ast.ImportFrom(one.module, [name], one.level)
                yield ast.copy_location(apart, one)
        else:
            yield one
