"""Which program holds a port, or which workers share one."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from dsrun.launcher.features.diagnosis import node_port_holder as port_holder
from dsrun.launcher.features.diagnosis.node_port_holder import holder, port, shared
from dsrun.launcher.node.machine import ports
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.limits import HANG


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already", 0),
        ("socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)", 29500),
        ("port: 29501, useIpv6: false, code: -98, name: EADDRINUSE, message: address", 29501),
        ("attempting to bind on address ('0.0.0.0', 8000): address already in use", 8000),
        ("binding to port 7777\nOSError: [Errno 98] Address already in use", 7777),
        ("Failed to bind to 0.0.0.0:6006: Address already in use", 6006),
        ("OSError: [Errno 98] Address already in use", 0),
        ("port: 29500 is free", 0),
        ("port 99999: Address already in use", 0),
    ],
)  # fmt: skip
def test_the_port_that_an_error_names(text: str, number: int) -> None:
    assert port(text) == number


def test_the_program_that_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_holder, "SECONDS", HANG)
    with closing(ports.Reservation(0)) as one:
        error = f"127.0.0.1:{one.port}: Address already in use"
        found = holder(error)
        one.open_to_store()  # nobody else gets the number
        assert holder(error) == ""
    assert found.startswith(f"port {one.port} is held by ")
    assert f"(pid {os.getpid()}, user " in found


IN_USE = "OSError: [Errno 98] Address already in use"


@pytest.mark.parametrize(
    ("local", "workers", "argv", "output", "told"),
    [
        (1, 2, ["srv.py"], f"port: 39259: {IN_USE}", "ranks 4 and 5 of srv; both listen"),
        (2, 4, ["srv.py"], f"('', 39259): {IN_USE}", "ranks 4 to 7 of srv; all listen"),
        (0, 2, ["srv.py", "--port=39259"], IN_USE, "ranks 4 and 5 of srv; both listen"),
        (0, 2, ["srv.py"], IN_USE, ""),  # which port?
        (0, 2, ["srv.py", "39259"], f"port: 8000: {IN_USE}", ""),
        (0, 2, ["srv.py", "39259"], "ValueError: 39259", ""),
        (0, 1, ["srv.py", "39259"], IN_USE, ""),
    ],
)
def test_workers_that_share_a_port_of_their_role(
    local: int, workers: int, argv: list[str], output: str, told: str
) -> None:
    env = {"LOCAL_RANK": local, "LOCAL_WORLD_SIZE": workers, "ROLE_NAME": "srv"}
    env |= {"DSRUN_PORT_HTTP": 39259, "DSRUN_PORT_METRICS": 39260}
    words = {name.encode(): str(value).encode() for name, value in env.items()}
    spec = WorkerSpec(4 + local, [os.fsencode(word) for word in argv], words, b"/")
    assert shared(output, spec) == (f"{told} on its port http (39259)" if told else "")
