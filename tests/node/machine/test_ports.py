"""The master port: reserved, released to rank 0, and found to be taken."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.network import any_address
from dsrun.launcher.node.machine import ports

from ...support.checkout import IMPORTABLE
from ...support.limits import HANG
from ...support.local_control import needs_root
from ...support.needs import need


def bind(port: int, *options: int, listen: bool = True) -> socket.socket:
    """Bind as a program with these socket options would."""
    one = socket.socket()
    try:
        for option in options:
            one.setsockopt(socket.SOL_SOCKET, option, 1)
        one.bind(("", port))
        if listen:
            one.listen()
    except OSError:
        one.close()
        raise
    return one


EVERY_WAY = [(), (socket.SO_REUSEADDR,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)]


@pytest.mark.parametrize("options", EVERY_WAY)
def test_nobody_takes_a_reserved_port_before_the_start(options: tuple[int, ...]) -> None:
    held = ports.Reservation(0)
    try:
        assert 1024 <= held.port <= 65535
        with pytest.raises(OSError, match="Address already in use"):
            bind(held.port, *options)
        with pytest.raises(OSError, match="Address already in use"):
            ports.Reservation(held.port)
    finally:
        held.close()
    bind(held.port, *options).close()


@pytest.mark.parametrize("chosen", [False, True])
def test_a_held_port_is_not_taken_by_accident_and_serves_the_store(chosen: bool) -> None:
    held = ports.Reservation(free_port() if chosen else 0)
    held.open_to_store()
    try:
        with pytest.raises(OSError, match="Address already in use"):
            bind(held.port)
        # torch's TCPStore listens with SO_REUSEADDR, libuv's and gloo's sockets likewise.
        with (
            bind(held.port, socket.SO_REUSEADDR) as store,
            socket.create_connection(("127.0.0.1", held.port), timeout=HANG) as caller,
        ):
            accepted, _ = store.accept()
            accepted.close()
            assert caller.recv(1) == b""
        with bind(held.port, socket.SO_REUSEADDR):
            pass
    finally:
        held.close()


NONE_LEFT = """
import socket
from dsrun.launcher.node.machine import ports
with open("/proc/sys/net/ipv4/ip_local_port_range", "w") as file:
    file.write("52000 52009")
taken = [socket.create_server(("", 0)) for _ in range(10)]
try:
    ports.Reservation(0)
except OSError:
    print(ports.taken_problem(0))
"""


@needs_root
def test_that_no_port_is_free_is_said() -> None:
    need("unshare")
    command = ["unshare", "--net", sys.executable, "-c", NONE_LEFT]
    environ = {**os.environ, **IMPORTABLE}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    problem = "no port is free: see ip_local_port_range in /proc/sys/net/ipv4, and ss -tan"
    assert (ran.stdout, ran.stderr) == (f"{problem}\n", "")


def free_port() -> int:
    """Return a port that nobody has."""
    with bind(0, listen=False) as one:
        return int(one.getsockname()[1])


@pytest.mark.parametrize("address", ["", "0.0.0.0"])
def test_a_port_that_is_held_without_listening_is_taken(address: str) -> None:
    """The second of two jobs with one port on a host, before the first one's store listens."""
    holder = any_address() if not address else socket.socket()
    with holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
        port = holder.getsockname()[1]
        with pytest.raises(OSError, match="Address already in use"):
            ports.Reservation(port)
        assert ports.taken_problem(port) == (
            f"port {port} is taken by {who_is_told()}:"
            " choose another --master_port, or omit it to get a free port"
        )


def who_is_told() -> str:
    """Return what is said of a port that this process has bound; older kernels tell no more."""
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 8):
        return "a program that does not listen yet, such as another job"
    name = Path("/proc/self/comm").read_text(encoding="utf-8").strip()
    return f"{name} (pid {os.getpid()}), which does not listen there"


def test_the_port_of_a_connection_names_its_holder() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=HANG) as caller,
    ):
        port = caller.getsockname()[1]
        with pytest.raises(OSError, match="Address already in use") as caught:
            ports.Reservation(port)
        problem = ports.problem(port, caught.value)
    assert f"(pid {os.getpid()}), which does not listen there: choose another" in problem


@needs_root
def test_a_program_that_may_not_be_seen_has_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "holder", lambda _inode: "")
        assert f"port {port} is taken by a program of user root: " in ports.taken_problem(port)


BELOW = """
from dsrun.launcher.common import account, port_words
from dsrun.launcher.node.machine import ports
import os, sys
os.setresuid(54321, 54321, 54321)
try:
    ports.Reservation(80)
except OSError as error:
    print(ports.problem(80, error))
"""


@needs_root
def test_a_port_that_only_root_may_use_is_not_taken() -> None:
    """In a network of its own, as containers often let every user have all ports."""
    need("unshare")
    command = ["unshare", "--net", sys.executable, "-c", BELOW]
    environ = {**os.environ, **IMPORTABLE}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == (
        "uid 54321 may not use port 80 (below 1024), which is reserved for root"
        " (ip_unprivileged_port_start): choose another --master_port, or omit it to get a free"
        " port\n",
        "",
    )


def test_connections_that_have_just_ended_refuse_no_rerun() -> None:
    with bind(0, socket.SO_REUSEADDR) as store:
        port = store.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=HANG) as caller:
            store.accept()[0].close()
            assert caller.recv(1) == b""
    with pytest.raises(OSError, match="Address already in use"):
        bind(port)  # in TIME_WAIT
    ports.Reservation(port).close()


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 77 1
   1: 0100007F:733C 0100007F:93A8 06 00000000:00000000 03:00000FA1 00000000     0        0 0 3
   2: 0100007F:93A8 0100007F:733C 01 00000000:00000000 00:00000000 00000000  1002        0 78 1
   3: 00000000000000000000000000000000:733C 00000000000000000000000000000000:0 0A 0:0 0:0 0 7 0 79
   4: 00000000:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 80 1
   5: cut off"""


def test_who_listens_is_read_from_the_kernels_table() -> None:
    assert ports.listening(TABLE.splitlines(), 29500) == [(1001, "77"), (7, "79")]
    assert ports.listening([], 29500) == []


def test_free_ports_are_all_different() -> None:
    held = [ports.Reservation(0) for _ in range(50)]
    assert len({one.port for one in held}) == 50
    for one in held:
        one.close()


def test_a_port_that_is_taken_names_its_holder() -> None:
    serve = (
        "import socket; s = socket.create_server(('', 0)); print(s.getsockname()[1], flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{serve}; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        port = int(holder.stdout.readline())
        with pytest.raises(OSError, match="Address already in use"):
            ports.Reservation(port)
        name = Path(f"/proc/{holder.pid}/comm").read_text(encoding="utf-8").strip()
        assert ports.taken_problem(port) == (
            f"port {port} is taken by {name} (pid {holder.pid}):"
            " choose another --master_port, or omit it to get a free port"
        )
        holder.communicate("\n")
    assert ports.taken_problem(port) == (
        f"port {port} is taken: choose another --master_port, or omit it to get a free port"
    )


def test_a_descriptor_that_is_closed_meanwhile_does_not_hide_a_holder() -> None:
    """The folder of descriptors that is read has one itself, here before that of the socket."""
    low = os.open(os.devnull, os.O_RDONLY)
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        os.close(low)
        assert f"(pid {os.getpid()})" in ports.taken_problem(port)


def test_who_listens_on_which_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [free_port(), free_port()]
    with bind(numbers[0]):
        assert ports.users(numbers) == {numbers[0]: {os.getuid()}, numbers[1]: set()}
    with bind(numbers[0], listen=False):
        assert ports.users(numbers[:1]) == {numbers[0]: set()}
    monkeypatch.setattr(ports, "_TABLES", ("/nowhere",))
    assert ports.users(numbers) is None
