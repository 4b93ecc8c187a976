"""Libraries that keep the rank: each worker has its own."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from dsrun.launcher.node.preload import libraries


def test_modules_read_the_rank_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for name in libraries.REREADERS:
        found[name] = module = ModuleType(name)
        vars(module).update(rank_zero_only=SimpleNamespace(rank=0), _get_rank=lambda: 5)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert libraries.reread() == ""
    ranks = {name: vars(module)["rank_zero_only"].rank for name, module in found.items()}
    assert ranks == {
        "lightning.fabric.utilities.rank_zero": 5,
        "lightning_fabric.utilities.rank_zero": 5,
        "torchmetrics.utilities.prints": 3,
    }


@pytest.mark.parametrize("name", libraries.REREADERS)
def test_one_that_has_changed_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert libraries.reread() == name


def test_nothing_is_done_without_them() -> None:
    assert libraries.reread() == ""


def test_what_goes_through_all_variables_is_covered_by_prefixes() -> None:
    assert {*libraries.SELECTIVE.values()} <= {*libraries.PREFIXES}
