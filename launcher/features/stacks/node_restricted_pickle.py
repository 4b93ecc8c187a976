"""Reads pickles of plain values, which cannot name code: none is run."""

from __future__ import annotations

import io
import pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"{module}.{name} in a pickle of plain values")

    def persistent_load(self, _pid: object) -> NoReturn:
        raise ValueError("a reference in a pickle of plain values")


def loads(data: bytes) -> object:
    """Return the value in a pickle: dict, list, tuple, str, bytes, int, float, bool, None.

    Raises:
        ValueError: the data is no pickle, or has other values.
    """
    try:
        return _Plain(io.BytesIO(data)).load()
    except ValueError:
        raise
    except Exception as error:  # the exceptions of broken pickles are not documented
        raise ValueError(f"not a pickle: {error!r}") from None
