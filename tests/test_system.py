"""The modules that run in simulated worlds ask the operating system in one place."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system

from .simulation.kernel import Kernel
from .support.checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACES = (
    *("node/*", "node/workers/*", "head/fleet/*", "head/run/*", "head/output/*", "head/report/*"),
    *("features/elastic/runner*", "features/hold/runner*", "features/watch/runner*"),
    *("features/jobs/runner*", "features/shards/runner*"),
    *(f"features/{one}/node*" for one in ("elastic", "diagnosis", "quick_check", "stacks")),
    *(f"features/{one}/node*" for one in ("roles", "shards", "watch")),
)
"""Modules of `launcher` that run in worlds, as patterns without `.py`."""

ALONE = ("common/loop.py", "control/connection.py", "control/stream.py", "control/local.py")

ASIDE = {
    *("node/call.py", "features/join/node.py", "features/elastic/node_links.py"),
    *("features/quick_check/node_venv.py", "node/engine_task.py"),
    *("features/elastic/agent.py", "features/elastic/shim.py"),
    "node/workers/calls.py",
    *(
        "features/quick_check/node_devices.py",
        "features/quick_check/node_report.py",
        "features/quick_check/torch_report.py",
    ),
    *("head/fleet/listener.py", "head/fleet/callers.py", "head/fleet/authentication.py"),
    *(
        "features/join/runner.py",
        "features/schedulers/runner_requeue.py",
        "features/join/runner.py",
    ),
    *(
        "features/elastic/runner_host_watch.py",
        "features/hold/runner_serve.py",
        "features/watch/runner_time_limit.py",
    ),
}
"""What stays outside: TLS and networks, facts of the machine, torch's agent, shells, programs of
users, process times."""

MODULES = {"os", "signal", "time", "threading", "select", "random", "socket", "fcntl", "ctypes"}

NAME = re.compile(rf"({'|'.join(sorted(MODULES))})[.][a-z_A-Z.]+")
"""A function of one of them."""

PURE = {
    *("os.fsencode", "os.fsdecode", "os.strerror", "os.waitstatus_to_exitcode", "os.sysconf"),
    *("os.sched_param", "os.cpu_count", "os.uname", "os.WCOREDUMP"),
    *("time.strftime", "time.localtime"),
    "os.path.expanduser",
    *(f"os.path.{one}" for one in ("join", "dirname", "basename", "abspath", "split", "normpath")),
    *("os.path.commonpath", "os.path.isabs", "os.path.realpath", "os.path.expandvars"),
    # Of the resolver, only what needs no name service: it asks for AI_NUMERICHOST.
    *(
        "socket.getaddrinfo",
        "signal.Signals",
        "socket.inet_pton",
        "socket.inet_ntop",
        "socket.inet_ntoa",
    ),
}
"""Functions without an effect that a world would have to know of."""


def modules() -> list[Path]:
    """Return the modules that run in worlds."""
    launcher = CHECKOUT / "launcher"
    every = [path for one in PLACES for path in sorted(launcher.glob(f"{one}.py"))]
    found = [*every, *(launcher / one for one in ALONE)]
    return [path for path in found if str(path.relative_to(launcher)) not in ASIDE]


def calls(tree: ast.AST) -> Iterator[str]:
    """Yield the functions of these modules that are called, as text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"open", "socket"} or NAME.fullmatch(name):
                yield name


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_it_calls_the_operating_system_through_one_module(path: Path) -> None:
    found = {name for name in calls(ast.parse(path.read_text())) if name not in PURE}
    assert {name for name in found if not name.startswith("os.environ")} == set()


def test_what_stays_outside_is_there() -> None:
    assert [one for one in ASIDE if not (CHECKOUT / "launcher" / one).exists()] == []


def test_a_world_has_every_call() -> None:
    names = {name for name, one in vars(system).items() if callable(one) and name[0] != "_"}
    assert (
        names - {"use", "suppress", "Callable", "Mapping", "Sequence"} - {*Kernel(0).calls()}
        == set()
    )
