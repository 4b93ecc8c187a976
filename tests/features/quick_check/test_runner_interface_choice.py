"""Which trials are made, and what follows from them; networks are made up and played."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control.reach_messages import Interface, Network
from dsrun.launcher.features.quick_check import runner_interface_choice as interface_choice
from dsrun.launcher.features.quick_check.runner_interface_choice import (
    FEW_PEERS,
    GLOO,
    MANY_PEERS,
    NCCL,
    WITHIN,
    AddressTrial,
    InterfaceChoice,
    bad,
    choices,
    defaults,
    first_trials,
    more_newcomer_trials,
    more_trials,
    newcomer_trials,
    words,
)

from ...support.cost import LINEAR, growth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Reaches = Callable[[AddressTrial], bool]

NO = "no answer"


def network(
    number: int,
    *,
    gloo: str = "a",
    nccl: Sequence[str] = (),
    cards: Sequence[tuple[str, str]] = (("eth0", "a"), ("eth1", "b")),
) -> Network:
    """Return the network of a node with an address on each of some networks (`a` ...)."""
    interfaces = tuple(Interface(card, f"{on}{number}") for card, on in cards)
    own = gloo if gloo.startswith(("127.", "172.")) or not gloo else f"{gloo}{number}"
    return Network(1, "t", own, tuple(nccl), interfaces)


def play(trials: Sequence[AddressTrial], reaches: Reaches) -> dict[tuple[int, str], str]:
    verdicts: dict[tuple[int, str], str] = {}
    for trial in trials:
        at = trial.to, trial.address
        verdicts[at] = verdicts.get(at) or ("" if reaches(trial) else NO)
    return verdicts


def examined(networks: Sequence[Network], reaches: Reaches) -> dict[int, dict[str, str]]:
    """Return what each node is given, {} for one that nothing helps."""
    verdicts = play(first_trials(networks), reaches)
    wrong = bad(networks, verdicts)
    if not wrong:
        return {}
    verdicts |= play(more_trials(networks, wrong), reaches)
    return {one.node: one.variables for one in choices(networks, verdicts)}


def well(_trial: AddressTrial) -> bool:
    return True


def cut(node: int, on: str) -> Reaches:
    """One node's cable to one network is cut."""
    return lambda one: not (one.address.startswith(on) and node in {one.by, one.to})


def test_where_all_works_a_few_are_dialled_and_nothing_is_set() -> None:
    networks = [network(number) for number in range(5)]
    trials = first_trials(networks)
    assert len(trials) == 10
    assert {(one.by, one.to) for one in trials} >= {(0, 1), (0, 2), (4, 0), (4, 1)}
    assert {one.address for one in trials} == {f"a{number}" for number in range(5)}
    assert examined(networks, well) == {}


def test_two_nodes_dial_each_other_once() -> None:
    assert first_trials([network(0), network(1)]) == [
        AddressTrial(0, 1, "a1"),
        AddressTrial(1, 0, "a0"),
    ]


def test_a_loopback_is_known_to_be_wrong_without_a_trial() -> None:
    networks = [network(number, gloo="127.0.1.1") for number in range(3)]
    assert first_trials(networks) == []
    assert bad(networks, {}) == {0, 1, 2}
    assert examined(networks, well) == {number: {GLOO: "eth0"} for number in range(3)}


def test_cards_of_any_name() -> None:
    cards = [("ens5", "a")], [("enp7s0", "a")]
    networks = [network(at, gloo="127.0.1.1", cards=one) for at, one in enumerate(cards)]
    assert examined(networks, well) == {0: {GLOO: "ens5"}, 1: {GLOO: "enp7s0"}}


def test_an_address_that_all_have_for_themselves() -> None:
    """It refuses, or leads to the node itself."""
    cards = [("docker0", "172.17.0."), ("eth0", "a")]
    networks = [
        network(0, gloo="172.17.0.0", cards=cards),
        network(1, gloo="172.17.0.1", cards=cards),
    ]
    found = examined(networks, lambda one: not one.address.startswith("172"))
    assert found == {0: {GLOO: "eth0"}, 1: {GLOO: "eth0"}}


@pytest.mark.parametrize("nodes", [2, 3, 7, 40])
def test_a_node_that_is_cut_from_one_network_takes_all_to_the_other(nodes: int) -> None:
    networks = [network(number) for number in range(nodes)]
    assert examined(networks, cut(1, "a")) == {at: {GLOO: "eth1"} for at in range(nodes)}


def test_one_that_nobody_reaches_is_left_as_it_is() -> None:
    networks = [network(number) for number in range(4)]
    found = examined(networks, lambda one: one.to != 2)
    assert found == {2: {}}


def test_only_the_variable_whose_default_fails_is_set() -> None:
    cards = [("eth0", "a"), ("eth1", "b"), ("eth2", "c")]
    own = {"gloo": "a", "nccl": ["eth0", "eth1", "eth2"], "cards": cards}
    networks = [network(number, **own) for number in range(2)]  # type: ignore[arg-type]
    both = {NCCL: "=eth0,eth2"}
    assert examined(networks, lambda one: one.address[0] != "b") == {0: both, 1: both}
    only = {GLOO: "eth1", NCCL: "=eth1"}
    assert examined(networks, lambda one: one.address[0] == "b") == {0: only, 1: only}


def test_what_the_user_has_chosen_is_not_tried() -> None:
    networks = [network(0, gloo=""), network(1, gloo="127.0.1.1")]
    assert defaults(networks[0]) == {}
    assert examined(networks, well) == {1: {GLOO: "eth0"}}


def test_an_address_that_was_not_tried_is_not_chosen() -> None:
    networks = [network(0, gloo="127.0.1.1"), network(1, gloo="127.0.1.1")]
    (first, second) = choices(networks, {(0, "b0"): ""})
    assert (first.variables, second.variables) == ({GLOO: "eth1"}, {})
    assert (first.why, second.address) == (WITHIN, "127.0.1.1")


def test_a_large_job_dials_no_more_than_it_has_to() -> None:
    def choose(size: int) -> None:
        networks = [network(number, gloo="127.0.1.1") for number in range(size)]
        more_trials(networks, bad(networks, {}))
        more_trials([network(number) for number in range(size)], {3})

    assert growth(choose, 60) < LINEAR
    networks = [network(number, gloo="127.0.1.1") for number in range(1000)]
    by: dict[int, int] = {}
    for one in more_trials(networks, bad(networks, {})):
        by[one.by] = by.get(one.by, 0) + 1
    assert set(by.values()) == {2 * FEW_PEERS}
    one_bad = more_trials([network(number) for number in range(1000)], {3})
    assert len([one for one in one_bad if one.by == 3]) == 2 * MANY_PEERS
    assert len([one for one in one_bad if one.by == 9]) == 2


def test_a_node_that_comes_later_is_dialled_by_a_few() -> None:
    networks = [network(number) for number in range(20)]
    assert newcomer_trials(networks) == [AddressTrial(1, 0, "a0"), AddressTrial(2, 0, "a0")]
    more = more_newcomer_trials(networks, {0})
    assert {one.by for one in more} == set(range(1, FEW_PEERS + 1))
    assert {(one.to, one.address) for one in more} == {(0, "a0"), (0, "b0")}


def test_what_is_said_has_nodes_reason_and_variables() -> None:
    names = ["n1", "n2", "n3", "n4", "login"]
    found = [InterfaceChoice(at, {GLOO: "eth1"}, f"10.0.0.{at}", NO) for at in range(3)]
    found.append(InterfaceChoice(4, {GLOO: "ens5", NCCL: "=ens5"}, "10.0.0.9", NO))
    assert words(names, found) == [
        "other nodes cannot reach the default network address of n[1-3], login "
        "(10.0.0.0 of n1: no answer); set for the workers: GLOO_SOCKET_IFNAME=eth1 on n[1-3]; "
        "GLOO_SOCKET_IFNAME=ens5 NCCL_SOCKET_IFNAME==ens5 on login"
    ]
    (line,) = words(names, [InterfaceChoice(3, {}, "10.0.0.4", NO)])
    assert line.startswith(
        "other nodes cannot reach the default network address of n4 (10.0.0.4 of n4: "
        "no answer), nor any other address there: "
    )
    assert words(names, []) == []


def test_the_names_of_the_variables_are_those_of_the_nodes() -> None:
    from dsrun.launcher.node.machine import interfaces

    assert (interface_choice.GLOO, interface_choice.NCCL) == (interfaces.GLOO, interfaces.NCCL)
