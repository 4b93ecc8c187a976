"""Who waits for clients, and who hangs: ranks of real trainings and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.stacks.messages import NetworkUse, ThreadStack
from dsrun.launcher.features.watch.runner_hang_verdict import Outside

from ...support.recorded_stacks import NAMES, recorded
from ...support.stacks import ALL_REDUCE, LIB, LOAD, ranks, view
from .test_runner_hang_verdict import judged

if TYPE_CHECKING:
    from dsrun.launcher.features.stacks.runner_view import RankView

TIMEOUT = 20.0

LOOPS = {"train-pyloop", "train-cloop"}
"""In these a rank computes."""

PERHAPS = {
    *("serve-recv", "serve-readline", "serve-select", "serve-stdin"),
    *("serve-asyncio_client", "serve-asyncio_client-alone"),
}
"""It is not clear whether these wait for requests: what they read from may be anything."""


def verdict(views: dict[int, RankView]) -> Outside:
    """Say `NO` of a hang, `YES` of none."""
    found = judged(views, views, TIMEOUT, TIMEOUT / 2)
    assert not found.working
    if found.hang is None:
        return Outside.YES
    return Outside.PERHAPS if found.hang.doubt else Outside.NO


@pytest.mark.parametrize("name", [one for one in NAMES if one.startswith("train-")])
def test_a_training_is_no_server_whatever_its_libraries_serve(name: str) -> None:
    views = recorded(name, TIMEOUT + 5)
    if name in LOOPS:
        views[1] = views[1]._replace(idle=0.0)
        assert judged(views, views, TIMEOUT, TIMEOUT / 2)[:2] == (None, (1,))
        return
    assert verdict(views) is Outside.NO
    found = judged(views, views, TIMEOUT, TIMEOUT / 2).hang
    assert found is not None
    assert (found.odd, found.waiting) == ((1,), (0,))


@pytest.mark.parametrize("name", [one for one in NAMES if one.startswith("serve-")])
def test_a_server_that_nobody_asks_does_not_hang(name: str) -> None:
    expected = Outside.PERHAPS if name in PERHAPS else Outside.YES
    assert verdict(recorded(name, TIMEOUT + 5)) is expected


def test_a_process_of_a_data_loader_that_is_locked_hangs_without_others_that_wait() -> None:
    views = recorded("train-worker_lock", TIMEOUT + 5)
    assert verdict({1: views[1]}) is Outside.NO
    views = recorded("train-sleep", TIMEOUT + 5)
    assert verdict({1: views[1]}) is Outside.YES


SERVER = (f"BaseServer.serve_forever ({LIB}/socketserver.py:233)",)
EVENT = (f"Condition.wait ({LIB}/threading.py:327)", f"Event.wait ({LIB}/threading.py:629)", *LOAD)
LOOP = (f"BaseEventLoop.run_forever ({LIB}/asyncio/base_events.py:607)", *LOAD)


def odd(frames: tuple[str, ...], *threads: tuple[str, ...], **network: Any) -> RankView:
    """A rank with such a main thread, and further ones, for which others wait."""
    one = view(3, frames, idle=TIMEOUT + 5)
    more = (ThreadStack(one.pid, "Thread-1", False, False, frames) for frames in threads)
    uses = NetworkUse(3, one.pid, "", "", 0, -1.0)._replace(**network)
    return one._replace(threads=(*one.threads, *more), network=(uses,) if network else ())


def waited_for(one: RankView) -> Outside:
    waiting = [view(rank, ALL_REDUCE, idle=TIMEOUT + 5) for rank in range(3)]
    return verdict(ranks(*waiting, one))


def test_a_rank_that_also_serves_may_wait_for_clients_while_others_wait_in_a_sum() -> None:
    assert waited_for(odd(EVENT, SERVER)) is Outside.PERHAPS
    assert waited_for(odd(EVENT, awaits="", others="clients")) is Outside.PERHAPS
    assert waited_for(odd(EVENT)) is Outside.NO


def test_what_a_main_thread_waits_for_decides_about_the_loop_of_asyncio() -> None:
    assert waited_for(odd(LOOP, awaits="clients")) is Outside.YES
    assert waited_for(odd(LOOP, awaits="unknown")) is Outside.PERHAPS
    assert waited_for(odd(LOOP, awaits="connection")) is Outside.NO
    assert waited_for(odd(LOOP, awaits="", others="")) is Outside.NO
