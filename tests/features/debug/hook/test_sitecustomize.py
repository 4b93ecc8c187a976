"""What a worker sees of the hook that starts its debugger: nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from dsrun.launcher.control import local
from dsrun.launcher.features.debug import node_sockets as sockets

from ....support.limits import HANG
from ....support.local_control import NOBODY, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..debugged import Debugged

LOOK = """
import json, os, sys
env = {name: value for name, value in os.environ.items() if name not in ("LC_CTYPE", "_")}
main = {name: repr(value) for name, value in vars(sys.modules["__main__"]).items() if name < "a"}
main.pop("__loader__")
print(json.dumps([sys.argv, sys.path, sys.orig_argv, env, main], sort_keys=True))
try:
    raise ValueError("mine")
except ValueError:
    import traceback
    traceback.print_exc()
"""


def test_the_program_s_world_is_as_without_it(
    tmp_path: Path, debugged: Callable[..., Debugged]
) -> None:
    script, site = tmp_path / "x.py", tmp_path / "site"
    script.write_text(LOOK)
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('the next one ran', __name__, __file__)\n")
    env = {"PYTHONPATH": str(site)}
    alone = subprocess.run(
        [sys.executable, "-u", script],
        cwd=tmp_path,
        env=os.environ | env,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert debugged(script, wait=False, **env).output() == alone.stdout
    assert alone.stdout.startswith("the next one ran sitecustomize")


@needs_root
def test_another_user_s_connection_is_dropped_and_who_waits_can_be_interrupted(
    tmp_path: Path, debugged: Callable[..., Debugged]
) -> None:
    script = tmp_path / "x.py"
    script.write_text("print('ran')")
    job = debugged(script)
    with socket.socket(socket.AF_UNIX) as stranger:
        os.seteuid(NOBODY)
        try:
            stranger.connect(f"\0{local.address('debug', job.name)}")
        finally:
            os.seteuid(0)
        stranger.settimeout(HANG)
        assert stranger.recv(100) == b"", "not even the greeting"
    job.worker.send_signal(signal.SIGINT)
    text, _ = job.worker.communicate(timeout=HANG)
    assert (text, job.worker.returncode) == ("", -signal.SIGINT)


SWALLOWS = """
import time
try:
    print("waits", flush=True)
    time.sleep(600)
except BaseException:
    raise ImportError("went on")
"""


def test_an_interrupt_that_debugpy_would_swallow_ends_the_worker(
    tmp_path: Path, debugged: Callable[..., Debugged]
) -> None:
    script, folder = tmp_path / "x.py", tmp_path / "debugpy"
    script.write_text("print('ran')")
    folder.mkdir()
    (folder / "__init__.py").write_text(SWALLOWS)
    worker = debugged(script, PYTHONPATH=str(tmp_path)).worker
    assert worker.stdout is not None
    assert worker.stdout.readline() == "waits\n"
    worker.send_signal(signal.SIGINT)
    text, _ = worker.communicate(timeout=HANG)
    assert (text, worker.returncode) == ("", -signal.SIGINT)


def test_a_worker_without_debugpy_says_so_and_runs(
    tmp_path: Path, debugged: Callable[..., Debugged]
) -> None:
    script, folder = tmp_path / "x.py", tmp_path / "debugpy"
    script.write_text("print('ran')")
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('broken')")
    assert debugged(script, PYTHONPATH=str(tmp_path)).output() == (
        "dsrun: this worker cannot be debugged: ImportError('broken')\nran\n"
    )


def test_without_its_variable_it_does_nothing(tmp_path: Path) -> None:
    hook = os.fsdecode(sockets.HOOK)
    code = "import sys; print('debugpy' in sys.modules)"
    argv = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": hook}
    ran = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("False\n", "")
