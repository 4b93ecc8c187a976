"""Make `dsrun` importable in a checkout that nothing was installed from; choose tests by tier."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .support import order, tiers

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


def _installed() -> bool:
    try:
        return find_spec("dsrun.launcher") is not None
    except ModuleNotFoundError:
        return False


if not _installed():
    sys.path.insert(0, str(Path(__file__).parent / "import"))

# jsonschema imports this for a format that no test checks, if it is there: that takes seconds.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


FILES = 20_000
"""Descriptors that this process may have open: tests drop some of them for the collector."""


def pytest_configure() -> None:
    """Let signals end what tests start, as after a login, also under nohup or behind `&`.

    The usual limit on open files is raised.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    unlimited = most == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if unlimited else min(FILES, most), most))
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage: what is made then stays, and is a lot."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGTSTP),
)
"""Signals whose handlers dsrun, or a test, sets in the process of the tests."""


def pytest_report_header() -> str:
    """Say which simulated worlds are played."""
    from .simulation.seeds import seeds

    played = seeds()
    return f"simulated worlds: seeds {played[0]} to {played[-1]} (DSRUN_TEST_SEED sets the first)"


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Leave signal handlers as they were: a later test sends a signal to its own process."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Drop what a failed test has in its frames: it would be dropped, and told of, in the next."""
    report = yield
    if call.excinfo is not None and report.failed:
        for frame, _ in traceback.walk_tb(call.excinfo.tb):
            with suppress(RuntimeError):  # it still runs
                frame.clear()
            _locals = frame.f_locals  # before Python 3.13 a copy, made anew whenever it is read
        gc.collect()
    return report


@pytest.fixture(autouse=True)
def unexpected_faults() -> Iterator[list[Exception]]:
    """Fail a test in which a boundary has caught what no reader has named; it may clear the list.

    The exceptions are dropped: their frames hold what the test has used.
    """
    from dsrun.launcher.common import unexpected

    found: list[Exception] = []
    unexpected.observers.append(found.append)
    yield found
    unexpected.observers.remove(found.append)
    texts = ["".join(traceback.format_exception(error)) for error in found]
    found.clear()
    assert texts == [], "faults of dsrun that data from outside has caused"


def _children() -> set[int]:
    """Return the processes that this one has started and not waited for."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found |= set(map(int, (task / "children").read_text().split()))
    return found


def _end(pid: int) -> str:
    """Kill and reap a child; return what it was, "" if it had ended or ends with Python itself."""
    line = Path(f"/proc/{pid}/cmdline").read_bytes()  # nothing as it begins to execute a program
    if b"multiprocessing.resource_tracker" in line or os.waitpid(pid, os.WNOHANG)[0]:
        return ""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return line.replace(b"\0", b" ").decode(errors="replace") or f"pid {pid}"


@pytest.fixture(autouse=True)
def _no_child_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Name and end what a test has started and left: later tests end all children for their own.

    Hosts are up for all the tests of a folder, and look after themselves.
    """
    if {"cluster", "promises"} & {*request.path.parts}:
        yield
        return
    before = _children()
    yield
    left = [text for text in map(_end, _children() - before) if text]
    assert left == [], "processes that the test has left running"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    what = "which tests: those of `make test`, of `.ci/run`, or all (see tests/support/tiers.py)"
    parser.addoption("--tier", choices=tiers.TIERS, default="all", help=what)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the tier that was asked for; order the rest for all processes."""
    kept, left_out = tiers.divide(items, config.getoption("--tier"))
    config.hook.pytest_deselected(items=left_out)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = order.dealt(kept, processes) if processes > 1 else kept
