"""Which modules are imported once on each node."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.preload.plan import preloaded


@pytest.mark.parametrize(
    ("given", "modules"),
    [
        ({"warm_modules": "numpy"}, ()),
        ({"preload": "torch,a.b"}, ("torch", "a.b")),
        ({"warm_workers": True}, ("torch", "torch._dynamo")),
        ({"warm_workers": True, "warm_modules": "numpy"}, ("numpy",)),
        ({"preload": "b,a", "warm_workers": True, "warm_modules": "a,c"}, ("b", "a", "c")),
    ],
)
def test_only_what_is_asked_for_is_preloaded(
    given: dict[str, Any], modules: tuple[str, ...]
) -> None:
    assert preloaded(Options(**given)) == modules


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"preload": "torch", "no_python": True}, "--preload: not with --no_python, which imports"),
        ({"warm_workers": True, "no_python": True}, "--warm_workers: not with --no_python"),
        ({"preload": "torch", "debug": "0"}, "--preload: not with --debug, whose workers are not"),
        ({"preload": "torch", "rank_per_task": True}, "--preload: not with --rank_per_task"),
        ({"preload": ""}, "--preload '': expected module names, such as torch,numpy"),
        ({"preload": "a, b"}, "--preload 'a, b': expected module names"),
        ({"warm_workers": True, "warm_modules": "a..b"}, "--warm_modules 'a..b': expected module"),
    ],
)
def test_what_cannot_be_preloaded(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        preloaded(Options(**given))
    assert str(caught.value).startswith(words)
