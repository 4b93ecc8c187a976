"""Make `dsrun` importable in a checkout that nothing was installed from; choose tests by tier."""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .support import tiers

if TYPE_CHECKING:
    from collections.abc import Iterator


def _installed() -> bool:
    try:
        return find_spec("dsrun.launcher") is not None
    except ModuleNotFoundError:
        return False


if not _installed():
    sys.path.insert(0, str(Path(__file__).parent / "import"))


def pytest_configure() -> None:
    """Let signals end what tests start, as after a login, also under nohup or behind `&`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


SIGNALS = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGTSTP),
)
"""Signals whose handlers dsrun, or a test, sets in the process of the tests."""


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Leave signal handlers as they were: a later test sends a signal to its own process."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    what = "which tests: those of `make test`, of `.ci/run`, or all (see tests/support/tiers.py)"
    parser.addoption("--tier", choices=tiers.TIERS, default="all", help=what)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the tier that was asked for."""
    kept, left_out = tiers.divide(items, config.getoption("--tier"))
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
