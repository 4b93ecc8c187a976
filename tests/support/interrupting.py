"""Ctrl-C for a program that waits for a job, once it counts interrupts."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from .limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable


def when_interrupts_are_counted(call: Callable[[], object]) -> threading.Thread:
    """Start a thread that calls this as soon as the main thread waits for a job.

    Before that an interrupt would be raised anywhere in the main thread, and end the tests.
    """

    def work() -> None:
        wait_for(_counted, "the main thread to wait for the job")
        call()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def _counted() -> bool:
    return signal.getsignal(signal.SIGINT) is not signal.default_int_handler
