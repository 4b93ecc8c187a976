"""Libraries that keep the rank: each worker has its own."""

from __future__ import annotations

import sys
import weakref
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dsrun.launcher.features.preload import node_libraries as libraries


def test_modules_read_the_rank_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for name in libraries.KEEP_RANK:
        found[name] = module = ModuleType(name)
        vars(module).update(rank_zero_only=SimpleNamespace(rank=0), _get_rank=lambda: 5)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert libraries.renew() == ""
    ranks = {name: vars(module)["rank_zero_only"].rank for name, module in found.items()}
    assert ranks == {
        "lightning.fabric.utilities.rank_zero": 5,
        "lightning_fabric.utilities.rank_zero": 5,
        "torchmetrics.utilities.prints": 3,
    }


@pytest.mark.parametrize("name", libraries._RENEW)
def test_one_that_has_changed_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert libraries.renew() == name


def test_nothing_is_done_without_them() -> None:
    assert libraries.renew() == ""


def test_what_goes_through_all_variables_is_covered_by_prefixes() -> None:
    assert {*libraries.SELECTIVE.values()} <= {*libraries.PREFIXES}


def test_the_number_of_processes_that_compile_follows_from_the_workers_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module: Any = ModuleType("torch._inductor.config")
    module.compile_threads, module.decide_compile_threads = 32, lambda: 2
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert libraries.renew() == ""
    assert module.compile_threads == 2


def test_a_process_group_is_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("torch.distributed.distributed_c10d")
    module._new_process_group_helper = lambda *names: ({*names}, "store")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert libraries.renew() == ""
    group, store = module._new_process_group_helper("a", "b")
    assert (group, store) == ({"a", "b"}, "store")
    freed = weakref.ref(group)
    del group
    assert freed() is not None
