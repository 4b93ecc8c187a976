"""Our NamedTuple is typing's to whoever uses it."""

from __future__ import annotations

import copy
import pickle
import typing
from typing import Any

import pytest

from dsrun.launcher.common import records


class Ours(records.NamedTuple):
    """A node."""

    rank: int
    host: str = "here"
    slots: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        return f"{self.rank} on {self.host}"


class Typings(typing.NamedTuple):
    """A node."""

    rank: int
    host: str = "here"
    slots: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        return f"{self.rank} on {self.host}"


BOTH = pytest.mark.parametrize("kind", [Ours, Typings])
Kind = Any  # both are called in ways that a type checker would refuse


@BOTH
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((3,), {}),
        ((3, "w0"), {}),
        ((3, "w0", (1, 2)), {}),
        ((3,), {"slots": (4,)}),
        ((), {"slots": (4,), "rank": 3}),
    ],
)
def test_it_is_made_of_values_in_their_places_and_by_name(
    kind: Kind, given: tuple[object, ...], named: dict[str, object]
) -> None:
    made = kind(*given, **named)
    fields = {"rank": 3, "host": "here", "slots": ()}
    fields |= dict(zip(fields, given, strict=False)) | named
    assert tuple in kind.__mro__
    assert made == tuple(fields.values())
    assert made._asdict() == fields
    assert (made.rank, made.host, made.slots) == made
    assert made == kind._make(made) == copy.copy(made) == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(tuple(made))
    assert made.words == f"3 on {made.host}"


@BOTH
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {}),
        ((), {"host": "w0"}),
        ((1, "w0", (), "more"), {}),
        ((1,), {"rank": 2}),
        ((1,), {"rnk": 2}),
        ((1, "w0", ()), {"slots": ()}),
    ],
)
def test_it_is_not_made_of_too_few_or_too_many(
    kind: Kind, given: tuple[object, ...], named: dict[str, object]
) -> None:
    with pytest.raises(TypeError):
        kind(*given, **named)


@BOTH
def test_fields_are_replaced_in_a_copy_only(kind: Kind) -> None:
    made = kind(3)
    assert made._replace(host="w1", slots=(5,)) == (3, "w1", (5,))
    assert made == (3, "here", ())
    with pytest.raises((TypeError, ValueError)):
        made._replace(hots="w1")
    with pytest.raises(AttributeError):
        made.host = "w1"
    with pytest.raises(AttributeError):
        made.other = 1


@BOTH
def test_it_tells_what_it_is_made_of(kind: Kind) -> None:
    assert kind._fields == kind.__match_args__ == ("rank", "host", "slots")
    assert kind._field_defaults == {"host": "here", "slots": ()}
    assert [*kind.__annotations__] == ["rank", "host", "slots"]
    assert kind.__doc__ == "A node."
    assert kind.__module__ == __name__
    assert repr(kind(1)) == f"{kind.__name__}(rank=1, host='here', slots=())"
    match kind(1, "w0"):
        case Ours(rank, host) | Typings(rank, host):
            assert (rank, host) == (1, "w0")
        case _:
            pytest.fail("matched nothing")
