"""The process behind a job: requests about a run, and what is no request."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.api.process import RunnerProcess
from dsrun.launcher.common.errors import UsageError

from ..support.checkout import IMPORTABLE
from ..support.limits import HANG

if TYPE_CHECKING:
    pass


def test_a_process_without_a_job_refuses_and_ends_with_its_caller() -> None:
    process = RunnerProcess("dsrun.launcher.api.serve")
    with ExitStack() as cleaning:
        cleaning.callback(process.close)
        for request, error in (({"do": "fly"}, "invalid request 'fly'"),):
            with pytest.raises(UsageError, match=error):
                process.client.ask(request, seconds=HANG)
        with pytest.raises(UsageError, match="made by dsrun None"):
            process.client.ask({"do": "launch", "spec": {}}, seconds=HANG)


def test_a_process_whose_parent_is_another_ends_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        text = "from dsrun.launcher.api.serve import start; start()"
        command = [sys.executable, "-c", text, str(theirs.fileno()), "1"]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env=IMPORTABLE)
        theirs.close()
        assert process.wait(HANG) == 0
