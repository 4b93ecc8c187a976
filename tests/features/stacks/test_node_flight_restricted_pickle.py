"""Pickles from elsewhere: values, and never code."""

from __future__ import annotations

import collections
import datetime
import pickle
import pickletools
from pathlib import Path

import pytest

from dsrun.launcher.features.stacks import node_flight as restricted_pickle

PLAIN = {"a": [1, 2.5, None, True], "b": ("x", {"y": b"z"}), 3: 1 << 70}


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("/tmp/dsrun-evil"),))


@pytest.mark.parametrize("protocol", range(6))
def test_plain_values_are_read(protocol: int) -> None:
    plain = PLAIN if protocol > 2 else {"a": PLAIN["a"]}
    assert restricted_pickle.loads(pickle.dumps(plain, protocol)) == plain


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value", [Evil(), len, Path("x"), datetime.timedelta(1), collections.OrderedDict(a=1), object]
)
def test_whatever_names_code_is_refused(value: object, protocol: int) -> None:
    with pytest.raises(ValueError, match="in a pickle of plain values"):
        restricted_pickle.loads(pickle.dumps([value], protocol))
    assert not Path("/tmp/dsrun-evil").exists()


BROKEN = [
    b"",
    b"nonsense",
    pickle.dumps(PLAIN)[:-5],
    b"cos\nsystem\n(S'true'\ntR.",
    b"\x82\x05.",
    b"P1\n.",
    b"R.",
    b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"r\xff\xff\xff\xff.",
    b"F1e\n.",
]


@pytest.mark.parametrize("data", BROKEN)
def test_what_is_broken_is_an_error_and_no_more(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        restricted_pickle.loads(data)


def test_every_operation_of_pickle_is_harmless() -> None:
    """One at a time, after some values that it may use, with any arguments."""
    for code in pickletools.opcodes:
        for argument in (b"", b"\0", b"\1\0", b"\2\0\0\0os", b"os\nsystem\n"):
            data = b"\x80\x04(X\x02\0\0\0osX\x06\0\0\0system" + code.code.encode("latin-1")
            try:
                found = restricted_pickle.loads(data + argument + b".")
            except ValueError:
                continue
            assert type(found).__module__ == "builtins"
