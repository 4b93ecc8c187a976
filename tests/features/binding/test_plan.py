"""How to bind, from the options: every way by its names, parts of none, and lists of cores."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.cli.options import Options, all_options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.binding.node_plan import POLICIES
from dsrun.launcher.features.binding.plan import binding_policy, binds, core_lists
from dsrun.launcher.specs.policies import BindingPolicy

HOSTS = ("n1", "n2", "10.0.0.7", "fd00::7")

NAMES: list[tuple[dict[str, Any], str]] = [
    ({}, "none"),
    ({"bind_to": "none"}, "none"),
    ({"bind_cores_to_rank": True}, "core"),
    ({"bind_to": "core"}, "core"),
    ({"bind_core_list": "0-3"}, "core"),
    ({"bind_core_list": "n1:0@n2:1"}, "core"),
    ({"bind_to": "numa"}, "numa"),
    ({"numa_binding": "node"}, "numa"),
    ({"bind_to": "socket"}, "socket"),
    ({"numa_binding": "socket"}, "socket"),
    ({"numa_binding": "exclusive"}, "exclusive"),
    ({"numa_binding": "core-complex"}, "core-complex"),
    # The same asked for twice is no contradiction.
    ({"bind_cores_to_rank": True, "bind_to": "core"}, "core"),
    ({"bind_to": "numa", "numa_binding": "node"}, "numa"),
    ({"bind_to": "socket", "numa_binding": "socket"}, "socket"),
    # A list goes with every way.
    ({"bind_core_list": "0", "numa_binding": "exclusive"}, "exclusive"),
    ({"bind_core_list": "0", "bind_to": "numa"}, "numa"),
]


@pytest.mark.parametrize(("given", "way"), NAMES)
def test_every_way_has_its_names(given: dict[str, Any], way: str) -> None:
    options = Options(**given)
    assert binding_policy(options).bind_to == way
    assert binds(options) == (way != "none")


def test_every_name_that_is_offered_is_a_way_that_is_known() -> None:
    known = {"none", *POLICIES}
    offered = all_options()
    found = {
        binding_policy(Options(**{name: choice})).bind_to
        for name in ("bind_to", "numa_binding")
        for choice in offered[name].choices
    }
    assert found == known


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    (
        {"bind_cores_to_rank": True, "bind_to": "numa"},
        "conflicting options: --bind_cores_to_rank and --bind_to numa; give one of them",
    ),
    (
        {"bind_cores_to_rank": True, "bind_to": "none"},
        "conflicting options: --bind_cores_to_rank and --bind_to none; give one of them",
    ),
    (
        {"bind_cores_to_rank": True, "numa_binding": "exclusive"},
        "conflicting options: --bind_cores_to_rank and --numa_binding exclusive; give one of them",
    ),
    (
        {"bind_to": "socket", "numa_binding": "node"},
        "conflicting options: --bind_to socket and --numa_binding node; give one of them",
    ),
    (
        {"bind_to": "core", "numa_binding": "core-complex"},
        "conflicting options: --bind_to core and --numa_binding core-complex; give one of them",
    ),
    (
        {"bind_cores_to_rank": True, "bind_to": "core", "numa_binding": "node"},
        "conflicting options: --bind_cores_to_rank and --bind_to core and --numa_binding node; "
        "give one of them",
    ),
]


@pytest.mark.parametrize(("given", "text"), CONTRADICTIONS)
def test_two_ways_are_a_question(given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        binding_policy(Options(**given))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"bind_core_list": "0-3", "bind_to": "none"}, "--bind_core_list"),
        ({"bind_smt": "no"}, "--bind_smt no"),
        ({"bind_memory": "bind"}, "--bind_memory bind"),
        ({"bind_memory": "preferred"}, "--bind_memory preferred"),
        ({"bind_memory": "interleave", "bind_to": "none"}, "--bind_memory interleave"),
    ],
)
def test_a_part_of_no_binding_is_refused(given: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError) as caught:
        binding_policy(Options(**given))
    assert str(caught.value) == f"{name}: has no effect without binding; add --bind_cores_to_rank"


@pytest.mark.parametrize(
    "given",
    [
        {"bind_memory": "none"},
        {"bind_memory": "auto"},
        {"bind_smt": "yes"},
        {"bind_nic": True},
        {"report_bindings": True},
    ],
)
def test_what_goes_without_a_binding_is_taken(given: dict[str, Any]) -> None:
    assert binding_policy(Options(**given)).bind_to == "none"


def test_all_else_is_handed_on() -> None:
    given = {"bind_to": "numa", "bind_smt": "no", "bind_memory": "interleave"}
    assert binding_policy(Options(**given, bind_nic=True, report_bindings=True)) == BindingPolicy(
        bind_to="numa", smt=False, memory="interleave", nics=True, report=True
    )


def test_without_options_nothing_is_asked() -> None:
    assert binding_policy(Options()) == BindingPolicy()


# Lists of cores


@pytest.mark.parametrize("text", ["", "0", "0-3", "3-5,0", " 1 , 3-4 "])
def test_one_list_is_for_every_host(text: str) -> None:
    assert core_lists(text, HOSTS) == (text, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1:0-3@n2:4-7", ["0-3", "4-7", "", ""]),
        ("n2:4-7,1@n1:0-3", ["0-3", "4-7,1", "", ""]),
        ("n2:5", ["", "5", "", ""]),
        # The cores come after the last colon, so that an address may have some.
        ("fd00::7:1,2@10.0.0.7:0", ["", "", "0", "1,2"]),
    ],
)
def test_hosts_have_lists_of_their_own(text: str, expected: list[str]) -> None:
    default, lists = core_lists(text, HOSTS)
    assert [dict(lists).get(host, default) for host in HOSTS] == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("n3:0", "n3:0"),
        ("n1:0@n3:1", "n3:1"),
        ("n1", "n1"),
        ("n1:0@", ""),
        ("@n1:0", ""),
        ("0-3@n1:0", "0-3"),
        ("N1:0", "N1:0"),
        ("n1:0,n2:1", "n1:0,n2:1"),
        (":0", ":0"),
        ("x", "x"),
    ],
)
def test_a_host_that_does_not_take_part(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        core_lists(text, HOSTS)
    assert str(caught.value) == (
        f"--bind_core_list: '{part}': expected cpus, or host:cpus for one of:"
        " n1, n2, 10.0.0.7, fd00::7"
    )


def test_a_host_has_one_list() -> None:
    with pytest.raises(UsageError, match=r"^--bind_core_list: host 'n1' is named twice$"):
        core_lists("n1:0@n2:1@n1:2", HOSTS)


@pytest.mark.parametrize("cpus", ["0-", "3-1", "-", "1,,2", "0,0", "0-3,2", "123456", "1 2"])
def test_malformed_lists(cpus: str) -> None:
    """For all or for one host, it is said with the name of the option."""
    for text in (cpus, f"n1:{cpus}", f"n2:0@n1:{cpus}"):
        with pytest.raises(UsageError, match=r"^--bind_core_list: '[^']*': "):
            core_lists(text, HOSTS)


@pytest.mark.parametrize("text", ["n1:", "n1:x", "n1: @n2:1"])
def test_a_host_without_cores(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--bind_core_list: '.*': expected cpu numbers"):
        core_lists(text, HOSTS)
