"""Which addresses gloo and NCCL would take: of made-up interfaces, and of this machine."""

from __future__ import annotations

import os
import socket
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common import network, system
from dsrun.launcher.node.machine import interfaces, processes
from dsrun.launcher.node.machine.interfaces import nccl_default

from ...support.leaks import open_files
from ...support.limits import HANG, NEVER

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")


UNKNOWN = "no-such-host.invalid"
NAME, OWN = "this-machine.invalid", "127.0.0.2"
"""A name for this machine, and what it stands for."""


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """No name service is asked, which might take long; children ask none either."""
    ask = socket.getaddrinfo

    def asked(host: Any, *more: Any, **options: Any) -> Any:
        if host == UNKNOWN:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask(OWN if host == NAME else host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    monkeypatch.setattr(interfaces, "SECONDS", HANG)


@pytest.mark.parametrize(
    ("names", "rdma", "taken"),
    [
        ("eth0", False, "eth0"),
        ("docker0 eth0 ens5", False, "eth0 ens5"),
        ("docker0 eth0 ens5", True, "eth0"),
        ("eth0 ib0 ib1", False, "ib0 ib1"),
        ("eth0 ib0 ib1", True, "ib0"),
        ("docker0 virbr0", False, "docker0"),
        ("", False, ""),
    ],
)
def test_nccl_takes_infiniband_then_all_but_docker(names: str, rdma: bool, taken: str) -> None:
    assert nccl_default(names.split(), rdma=rdma) == tuple(taken.split())


def test_a_node_tells_its_interfaces_and_what_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (("docker0", "172.17.0.1"), ("eth0", "10.0.0.1"), ("bad\n", "10.0.0.2"))
    monkeypatch.setattr(network, "interfaces", lambda: found)
    monkeypatch.setattr(system, "uname", lambda: SimpleNamespace(nodename=NAME))
    told = interfaces.network_of({"HOME": "/"}, "cuda", 4711, "token")
    assert (told.port, told.token, told.nccl) == (4711, "token", ("eth0",))
    assert told.interfaces == found[:2]
    assert told.gloo == interfaces.own_address() == OWN


def test_what_the_user_has_chosen_is_not_examined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(network, "interfaces", lambda: (("eth0", "10.0.0.1"),))
    own = {"GLOO_SOCKET_IFNAME": "eth9", "NCCL_SOCKET_IFNAME": "eth9"}
    told = interfaces.network_of(own, "cuda", 1, "t")
    assert (told.gloo, told.nccl) == ("", ())
    assert interfaces.network_of({}, "cpu", 1, "t").nccl == ()
    file = tmp_path / "nccl.conf"
    file.write_text("# site\nNCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=ib0\n")
    assert interfaces.network_of({"NCCL_CONF_FILE": str(file)}, "cuda", 1, "t").nccl == ()
    file.write_text("NCCL_DEBUG=WARN\n")
    assert interfaces.network_of({"NCCL_CONF_FILE": str(file)}, "cuda", 1, "t").nccl == ("eth0",)


def test_a_name_is_resolved_as_gloo_does_it() -> None:
    before, children = open_files(), processes.children()
    assert interfaces._asked("localhost") in {"127.0.0.1", "::1"}
    assert interfaces._asked(UNKNOWN) == "127.0.0.1"
    assert interfaces._asked("192.0.2.77") == "127.0.0.1", "not an address of this machine"
    assert (open_files(), processes.children()) == (before, children)


def test_a_name_service_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: time.sleep(NEVER))
    assert interfaces._asked("n0") == ""


def test_a_machine_without_room_for_a_process_has_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full() -> int:
        raise OSError(11, "full")

    monkeypatch.setattr(os, "fork", full)
    assert interfaces._asked("localhost") == ""


@pytest.mark.parametrize(
    ("order", "rows", "in_file"),
    [
        ("hosts: files dns", "10.0.0.1 n0.site n0 # first", True),
        ("", "10.0.0.1 n0", True),
        ("hosts: files dns", "10.0.0.1 n1 # n0", False),
        ("hosts: resolve files", "10.0.0.1 n0", False),
        ("hosts:", "", False),
    ],
)
def test_only_a_name_that_a_file_has_is_looked_up_here(
    order: str, rows: str, in_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"/etc/nsswitch.conf": ["passwd: files", order], "/etc/hosts": ["", rows]}
    monkeypatch.setattr(interfaces, "lines_of", files.__getitem__)
    assert interfaces._is_in_file("n0") is in_file
