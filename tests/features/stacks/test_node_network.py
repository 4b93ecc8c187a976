"""What real processes wait for on the network."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.stacks import node_network as network
from dsrun.launcher.features.stacks.messages import CLIENT, CLIENTS, CONNECTION, STORE

from ...support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.stacks.messages import NetworkUse

HEAD = """
import asyncio, select, socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
def loop(milliseconds):
    "Wait as gloo does, but for what does not come, on a connection that somebody has made."
    taken, _ = server.accept()
    one = select.epoll()
    one.register(taken, select.EPOLLPRI)
    while True:
        one.poll(milliseconds / 1000, 64)
async def listen():
    await asyncio.start_server(lambda reader, writer: None, sock=server)
    await asyncio.Event().wait()
"""


@contextmanager
def running(code: str, told: str = "") -> Iterator[tuple[int, int]]:
    """A process that listens and runs this, with a line on its input; its pid, and its port."""
    argv = [sys.executable, "-c", f"{HEAD}\n{code}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            if told and process.stdin is not None:
                process.stdin.write(told.encode())
                process.stdin.flush()
                assert process.stdout.readline() == b"\n"
            yield process.pid, port
        finally:
            process.kill()


@contextmanager
def behind(path: Path, code: str) -> Iterator[int]:
    """A process that listens at this path and runs this; its pid."""
    with running(UNIX + code, f"{path}\n") as (pid, _):
        yield pid


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def use(pid: int, store: int = 0) -> NetworkUse:
    return network.use(3, pid, network.sockets(), store)


WAITS = {
    "server.accept()": CLIENTS,
    "asyncio.run(listen())": CLIENTS,
    "asyncio.run(asyncio.Event().wait())": "",
    "time.sleep(1000)": "",
}


@pytest.mark.parametrize("code", WAITS)
def test_what_a_main_thread_waits_for(code: str) -> None:
    with running(code) as (pid, _):
        wait_for(lambda: use(pid).awaits == WAITS[code], code)
        assert (use(pid).rank, use(pid).pid) == (3, pid)


UNIX = """
path = sys.stdin.readline().strip()
unix = socket.socket(socket.AF_UNIX)
unix.bind(path)
unix.listen()
print(flush=True)
def watch():
    one = select.epoll()
    one.register(unix)
    one.poll()
async def serve():
    await asyncio.start_unix_server(lambda reader, writer: None, sock=unix)
    await asyncio.Event().wait()
"""
BEHIND_A_PATH = {
    "unix.accept()": (CLIENTS, ""),
    "asyncio.run(serve())": (CLIENTS, ""),
    "threading.Thread(target=watch).start(); threading.Event().wait()": ("", CLIENTS),
    "unix.accept()[0].recv(1)": (CLIENT, ""),
    "time.sleep(1000)": ("", ""),
}


@pytest.mark.parametrize("code", BEHIND_A_PATH)
def test_what_a_server_behind_a_path_waits_for(code: str, tmp_path: Path) -> None:
    """As ZeroMQ's ipc, with a thread of its own, and `uvicorn --uds`."""
    with behind(tmp_path / "server", code) as pid, socket.socket(socket.AF_UNIX) as client:
        if "recv" in code:
            client.connect(str(tmp_path / "server"))
        found = BEHIND_A_PATH[code]
        wait_for(lambda: (use(pid).awaits, use(pid).others) == found, code)


@pytest.mark.parametrize("name", ["pymp-abc/listener-x", "listener-y"])
def test_a_server_for_processes_of_the_job(name: str, tmp_path: Path) -> None:
    """As `multiprocessing` has them: nobody else is served there."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with behind(tmp_path / name, "unix.accept()") as pid:
        blocked = Path(f"/proc/{pid}/syscall")
        wait_for(lambda: blocked.read_text().split()[0] in {"43", "202", "242", "288"}, "accept")
        assert use(pid).awaits == ""


def test_more_from_a_client() -> None:
    code = "server.accept()[0].recv(1)"
    with running(code) as (pid, port), connected(port):
        wait_for(lambda: use(pid).awaits == CLIENT, code)


def test_what_other_threads_wait_for() -> None:
    code = "threading.Thread(target=server.accept, daemon=True).start(); time.sleep(1000)"
    with running(code) as (pid, port):
        wait_for(lambda: (use(pid).others, use(pid).awaits) == (CLIENTS, ""), "both threads")
        assert use(pid, store=port).others == ""


LOOP = "threading.Thread(target=loop, args=({},), daemon=True).start(); time.sleep(1000)"


def test_what_the_thread_of_gloo_receives_comes_from_ranks() -> None:
    with running(LOOP.format(10)) as (pid, port), connected(port) as ours:
        ours.sendall(b"x" * 1000)
        wait_for(lambda: use(pid).quiet >= 0.2, "silence")
        ours.sendall(b"x" * 1000)
        wait_for(lambda: 0.0 <= use(pid).quiet < 0.2, "the bytes")
        assert use(pid).others == ""


def test_another_loop_waits_for_clients() -> None:
    with running(LOOP.format(1000)) as (pid, port), connected(port):
        wait_for(lambda: use(pid).others == CLIENT, "the loop")
        assert use(pid).quiet == -1.0


def test_received_bytes_are_counted() -> None:
    code = "one, _ = server.accept()\nwhile one.recv(1 << 16): pass"
    with running(code) as (pid, port), connected(port) as ours:
        before = use(pid).received
        ours.sendall(b"x" * 100_000)
        wait_for(lambda: use(pid).received >= before + 100_000, "the bytes")


def test_a_connection_of_its_own_side() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with running(f"socket.create_connection(('127.0.0.1', {port})).recv(1)") as (pid, _):
            taken, _ = server.accept()
            with taken:
                wait_for(lambda: use(pid).awaits == CONNECTION, "its wait")


def test_an_answer_of_the_store() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"socket.create_connection(('127.0.0.1', {port})).recv(1)"
        with running(code) as (pid, _):
            wait_for(lambda: use(pid, store=port).awaits == STORE, "its wait")


def test_an_answer_for_which_a_process_polls() -> None:
    """As torch's own store does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connection = f"socket.create_connection(('127.0.0.1', {port}))"
        code = f"poll = select.poll(); one = {connection}; poll.register(one)"
        with running(f"{code}; poll.modify(one, select.POLLIN); poll.poll()") as (pid, _):
            wait_for(lambda: use(pid, store=port).awaits == STORE, "its wait")


@pytest.mark.parametrize("address", [0, 1 << 63, (1 << 64) - 1])
def test_a_poll_of_nothing_at_an_address_that_cannot_be(address: int) -> None:
    """Its own thread can do so; the other ranks of its node are told of all the same."""
    poll = f"ctypes.CDLL(None).poll(ctypes.c_void_p({address}), 0, -1)"
    with running(f"import ctypes; {poll}") as (pid, _):
        blocked = Path(f"/proc/{pid}/syscall")
        wait_for(lambda: blocked.read_text().split()[0] in {"7", "73", "271"}, "poll")
        assert use(pid).awaits == ""


def test_a_process_that_is_gone() -> None:
    with running("pass") as (pid, _):
        pass
    gone = use(pid)
    assert (gone.awaits, gone.others, gone.received, gone.quiet) == ("unknown", "", 0, -1.0)
