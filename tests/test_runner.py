"""What becomes of a job when dsrun itself fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from dsrun.launcher.common.poll import ready

from .support.checkout import IMPORTABLE
from .support.limits import HANG

FAULTY = """
import os, sys
from types import ModuleType
from dsrun.launcher import backends, runner
from dsrun.launcher.backends.local import Local

class Faulty(Local):
    def start(self, nodes, loop, emit, dial):
        super().start(nodes, loop, emit, dial)
        def look():
            assert not os.path.exists("up"), "the worker\\nis up"
            loop.call_later(0.01, look)
        look()

module = ModuleType("dsrun.launcher.backends.faulty")
module.Faulty = Faulty
sys.modules[module.__name__] = module
backends.BACKENDS["local"] = backends.BACKENDS["local"]._replace(path=".faulty:Faulty")
sys.exit(runner.main(sys.argv[1:]))
"""


def ends(pid: int) -> bool:
    """Whether a process is gone in the end."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(ready([pidfd], HANG))
    finally:
        os.close(pidfd)


def test_a_crash_of_dsrun_itself_is_in_the_report_file_and_ends_the_workers(
    tmp_path: Path,
) -> None:
    worker = "import os, signal; open('pid', 'w').write(str(os.getpid())); open('up', 'w')"
    (tmp_path / "train.py").write_text(f"{worker}\nsignal.pause()\n")
    options = ["--num_gpus", "1", "--report_file", "report", "--grace", "0.5"]
    ended = subprocess.run(
        [sys.executable, "-c", FAULTY, *options, "train.py"],
        cwd=tmp_path,
        env=IMPORTABLE,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )
    assert ends(int((tmp_path / "pid").read_text()))
    report = json.loads((tmp_path / "report").read_text())
    assert (ended.returncode, report.pop("job_id") != "") == (70, True)
    error = "AssertionError: the worker is up"
    assert report == {"format": 1, "exit_code": 70, "cause": "internal error", "error": error}
    assert "this is a bug in dsrun" in ended.stderr
