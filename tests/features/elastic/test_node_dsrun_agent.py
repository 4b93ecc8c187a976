"""Histories of rounds without torch's agent: frames and exits in, events and frames out.

The ports are real.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from ...support.leaks import open_files
from ...support.played_rounds import GRACE, ROUND, PlayedRounds, ends, finished, starts, stops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...support.fake_agent import FakeAgents

SECOND = ROUND._replace(generation=2, first_rank=0)
STOP = stops()


class Played(PlayedRounds):
    """Rounds that the node launcher itself decides on.

    Attributes:
        ports: of the newest JOIN: for the store, and for probes.
    """

    ports = (0, 0)

    def __init__(self, agents: FakeAgents) -> None:
        self.before = open_files()
        super().__init__(agents.task(grace=GRACE, torch_agent=False))
        self.joined()

    def joined(self) -> None:
        """The node has joined a round just now, with new ports; the kernel may give one again."""
        ((name, ports),) = self.came()
        assert name == "READY"
        newest = ports["port"], ports["probe"]
        assert len({0, *newest}) == 3
        assert newest != self.ports
        self.ports = newest

    def started(self, start: Any = ROUND) -> None:
        """The round is formed and its workers were started, with the runner's own values."""
        self.forms(start)
        assert self.came() == [starts(start)]

    def exits(self, *codes: int, first: int = 4) -> None:
        """Workers end, in the order of their ranks."""
        for local, code in enumerate(codes):
            self.rounds.exited(first + local, code)


def answers(port: int) -> bool:
    """Whether somebody listens at a port."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def bind(port: int) -> int:
    """Return the error of a program that takes a port in the usual way, 0 for none."""
    with socket.socket() as one:
        try:
            one.bind(("", port))
        except OSError as error:
            return error.errno or -1
    return 0


@pytest.fixture
def played(agents: FakeAgents) -> Iterator[Played]:
    one = Played(agents)
    yield one
    one.rounds.close()
    one.clock.loop._epoll.close()
    assert open_files() == one.before


# -- a round --------------------------------------------------------------------------------------


def test_it_has_no_processes(played: Played) -> None:
    assert tuple(played.rounds.agents) == ()


def test_workers_start_with_the_rounds_own_values(played: Played) -> None:
    played.started()
    assert played.came(1000.0) == []


def test_a_worker_that_fails_has_the_others_stopped_once(played: Played) -> None:
    played.started()
    played.rounds.exited(5, 7)
    assert played.came() == [STOP]
    played.rounds.exited(4, -signal.SIGTERM)
    assert played.came() == []
    played.rounds.workers_gone()
    played.joined()


def test_workers_that_fail_together_are_one_failure(played: Played) -> None:
    played.started()
    played.together(lambda: played.exits(7, 8))
    assert played.came() == [STOP]


def test_workers_that_are_gone_when_one_has_failed_need_no_stop(played: Played) -> None:
    played.started()
    played.together(lambda: played.exits(0, 7), played.rounds.workers_gone)
    played.forms(SECOND)
    assert [name for name, *_ in played.came(1.0)] == ["READY", "workers_requested"]


def test_a_failure_after_others_have_ended_well(played: Played) -> None:
    played.started()
    played.exits(0)
    assert played.came() == []
    played.rounds.exited(5, 1)
    assert played.came() == [STOP]
    played.rounds.workers_gone()
    played.joined()
    played.started(SECOND)
    played.rounds.exited(0, 0)
    assert played.came() == []


def test_the_runner_hears_when_all_workers_have_ended_well_and_are_gone(played: Played) -> None:
    played.started()
    played.exits(0, 0)
    assert played.came() == []  # what they have left behind and printed is not
    played.rounds.workers_gone()
    assert played.came() == [finished()]
    assert played.came(1000.0) == []


def test_workers_that_end_well_because_they_were_stopped_have_not_finished(played: Played) -> None:
    played.started()
    played.change()
    assert played.came() == [STOP]
    played.exits(0, 0)
    played.rounds.workers_gone()
    played.joined()


def test_a_worker_that_became_somebody_elses_has_not_finished(played: Played) -> None:
    """The group is over, and its end was never seen."""
    played.started()
    played.exits(0)
    played.rounds.workers_gone()
    played.joined()


# -- another round is wanted ----------------------------------------------------------------------


def test_a_change_stops_the_workers_and_the_next_round_follows(played: Played) -> None:
    played.started()
    played.change()
    assert played.came() == [STOP]
    played.change()
    assert played.came() == []
    played.exits(-signal.SIGTERM, -signal.SIGTERM)
    played.rounds.workers_gone()
    played.joined()
    played.started(SECOND)
    played.exits(0, 0, first=0)
    played.rounds.workers_gone()
    assert played.came() == [finished(2)]


def test_a_change_that_crosses_a_join_is_late(played: Played) -> None:
    """The node has left the round by itself; the runner is not to hear of a second JOIN."""
    played.change()
    played.started()
    played.exits(7)
    played.came()
    played.rounds.workers_gone()
    played.joined()
    played.change()
    assert played.came() == []
    played.started(SECOND)
    assert played.came() == []


def test_a_change_after_a_failure_is_nothing_new(played: Played) -> None:
    played.started()
    played.exits(7)
    played.change()
    assert played.came() == [STOP]


def test_a_node_that_has_finished_takes_part_again(played: Played) -> None:
    played.started()
    played.exits(0, 0)
    played.rounds.workers_gone()
    assert played.came() == [finished()]
    played.change()
    played.joined()
    played.started(SECOND)
    played.exits(0, 0, first=0)
    played.rounds.workers_gone()
    assert played.came() == [finished(2)]


def test_a_change_while_workers_that_ended_well_are_cleared_away(played: Played) -> None:
    played.started()
    played.exits(0, 0)
    played.change()
    assert played.came() == [STOP]
    played.rounds.workers_gone()
    played.joined()


def test_a_round_that_the_node_has_not_joined_starts_nothing(played: Played) -> None:
    played.started()
    played.forms(SECOND)
    assert played.came() == []
    played.exits(0, 0)
    played.rounds.workers_gone()
    assert played.came() == [finished()]


def test_an_exit_after_the_round_is_nobodys(played: Played) -> None:
    played.started()
    played.exits(7)
    played.came()
    played.rounds.workers_gone()
    played.joined()
    played.exits(0, 1)
    assert played.came() == []
    played.started(SECOND)
    assert played.came() == []


# -- ports ----------------------------------------------------------------------------------------


def test_ports_are_held_from_the_join_until_the_workers_are_gone(played: Played) -> None:
    """Probes are answered until the round is formed; at the store's port nobody ever listens."""
    store, probe = played.ports
    assert (answers(store), answers(probe)) == (False, True)
    assert bind(store) == errno.EADDRINUSE
    played.started()
    assert (answers(store), answers(probe)) == (False, False)
    assert bind(store) == errno.EADDRINUSE
    played.exits(7)
    played.came()
    assert bind(store) == errno.EADDRINUSE
    played.rounds.workers_gone()
    played.joined()
    assert not any(map(bind, {store, probe} - {*played.ports}))


def test_rank_0_can_listen_beside_what_holds_its_port(played: Played) -> None:
    played.started()
    with socket.socket() as store:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("", played.ports[0]))
        store.listen()
        assert answers(played.ports[0])


def test_a_node_that_has_finished_keeps_its_port(played: Played) -> None:
    """Rank 0 of its round may have ended, and workers on other nodes not."""
    played.started()
    played.exits(0, 0)
    played.rounds.workers_gone()
    played.came()
    assert bind(played.ports[0]) == errno.EADDRINUSE


@pytest.mark.parametrize("rounds", [1, 20])
def test_rounds_leave_no_descriptors_behind(played: Played, rounds: int) -> None:
    held = open_files()
    for generation in range(1, rounds + 1):
        played.started(ROUND._replace(generation=generation))
        played.exits(7)
        played.came()
        played.rounds.workers_gone()
        played.joined()
    assert open_files() == held


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_node_without_descriptors_has_failed(played: Played, spare: int) -> None:
    """With two there are enough for one port, and not for the other; nothing is left of it."""
    played.started()
    played.exits(7)
    played.came()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before, top = open_files(), max(map(int, open_files()))
    held = [os.open("/dev/null", os.O_RDONLY)]
    while held[-1] <= top:
        held.append(os.open("/dev/null", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + spare, hard))
    try:
        played.rounds.workers_gone()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in held:
            os.close(fd)
    reason = "cannot reserve a port for the next round: too many open files"
    assert open_files() == before
    assert played.came() == [
        ("AGENT_FAILED", {"reason": reason, "unusable": False}),
        ends(reason),
    ]


# -- the end --------------------------------------------------------------------------------------


def before_a_round(played: Played) -> None:
    """The node has joined."""


def in_a_round(played: Played) -> None:
    played.started()


def between_rounds(played: Played) -> None:
    in_a_round(played)
    played.exits(7)
    played.came()
    played.rounds.workers_gone()
    played.joined()


def as_one_fails(played: Played) -> None:
    in_a_round(played)
    played.together(lambda: played.exits(7), played.rounds.stop)


def leaving(played: Played) -> None:
    in_a_round(played)
    played.exits(7)
    assert played.came() == [STOP]


def with_all_done(played: Played) -> None:
    in_a_round(played)
    played.exits(0, 0)
    played.rounds.workers_gone()
    played.came()


@pytest.mark.parametrize(
    "when", [before_a_round, in_a_round, as_one_fails, leaving, between_rounds, with_all_done]
)
def test_after_the_end_there_is_no_other_round(
    played: Played, when: Callable[[Played], None]
) -> None:
    when(played)
    played.rounds.stop()
    played.exits(7, 7)
    played.change()
    played.forms(SECOND)
    played.change()
    assert played.came(1000.0) == []
    played.rounds.close()
    played.rounds.close()
    assert [bind(port) for port in played.ports] == [0, 0]
    assert played.came(1000.0) == []
