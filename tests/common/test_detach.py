"""A program that goes on in the background: what its parent exits with, and what it keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from ..support.checkout import CHECKOUT
from ..support.limits import HANG, wait_for

if TYPE_CHECKING:
    from pathlib import Path

START = """
import os, select, sys, time
from dsrun.launcher.common import entry
from dsrun.launcher.common.detach import detached
from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.common.poll import ready

def program(parent):
    {}

entry.start(lambda words: detached(program, hands_over={}))
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT / "tests" / "import")}


def command(body: str, *, hands_over: bool = False) -> list[str]:
    text = START.format("\n    ".join(body.strip().split("\n")), hands_over)
    return [sys.executable, "-c", text]


def run(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(body), capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=HANG
    )


def test_a_program_that_is_ready_goes_on_without_terminal_and_folder(tmp_path: Path) -> None:
    """Its parent ends with 0; whoever reads the parent's streams sees their end."""
    ended = run(f"""
print("before", flush=True)
parent.detach()
print("after", flush=True)
facts = [os.getcwd(), os.readlink("/proc/self/fd/0"), os.getsid(0) == os.getpid()]
with open({str(tmp_path / "new")!r}, "w") as file:
    file.write(repr(facts))
os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "facts")!r})
return 3
""")
    assert (ended.returncode, ended.stdout) == (0, "before\n")
    while not (tmp_path / "facts").exists():
        pass
    assert (tmp_path / "facts").read_text() == "['/', '/dev/null', True]"


def test_a_program_that_fails_before_gives_its_line_and_code() -> None:
    ended = run('raise NodeError("n1: no route")')
    assert (ended.returncode, ended.stderr) == (69, "dsrun: n1: no route\n")
    assert run("return 5").returncode == 5
    assert run("os.kill(os.getpid(), 9)").returncode == 137


def test_a_program_learns_that_its_parent_has_been_killed(tmp_path: Path) -> None:
    body = f"""
print("up", flush=True)
ready([parent.fileno()], None)
open({str(tmp_path / "told")!r}, "w").close()
return 0
"""
    with subprocess.Popen(command(body), stdout=subprocess.PIPE, env=ENVIRONMENT) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        os.kill(started.pid, signal.SIGKILL)
        assert started.stdout.read() == b"", "it has ended as well"
    assert (tmp_path / "told").exists()


HANDED_OVER = """
import os, sys, time
from dsrun.launcher.common import entry
from dsrun.launcher.common.detach import detached
from dsrun.launcher.common.poll import ready

def program(parent):
    if not parent.handed_over:
        parent.hand_over()
        os.execv(sys.executable, [sys.executable, "holder.py", *sys.argv])
    print("inside", file=sys.stderr, flush=True)
    if sys.argv[1] == "fail":
        return 5
    parent.detach("the id\\n", folder=None)
    while not os.path.exists("go"):
        time.sleep(0.01)
    return 3

entry.start(lambda words: detached(program, hands_over=True))
"""

HOLDER = """
import subprocess, sys
print("granted", file=sys.stderr, flush=True)
code = subprocess.call([sys.executable, *sys.argv[1:]], close_fds=False)
try:
    print("given back", file=sys.stderr, flush=True)
except BrokenPipeError:
    open("nobody reads", "w").close()
open(f"code {code}", "w").close()
sys.exit(code)
"""
"""Goes on for as long as what it runs, as salloc does."""


def held(folder: Path, word: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(HANDED_OVER)
    (folder / "holder.py").write_text(HOLDER)
    return subprocess.run(
        [sys.executable, "program.py", word],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG,
    )


def test_a_program_in_place_of_the_child_holds_no_stream_of_the_command(tmp_path: Path) -> None:
    """What it says before is printed; whoever reads the command's streams sees their end."""
    ended = held(tmp_path, "go on")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the id\n", "granted\ninside\n")
    (tmp_path / "go").touch()
    wait_for((tmp_path / "code 3").exists, "the end of what holds it")
    assert (tmp_path / "nobody reads").exists()


def test_what_fails_in_such_a_program_gives_all_lines_and_the_code(tmp_path: Path) -> None:
    ended = held(tmp_path, "fail")
    assert (ended.returncode, ended.stdout) == (5, "")
    assert ended.stderr == "granted\ninside\ngiven back\n"


QUEUED = """
import os, signal, sys
def end(number, frame):
    os.rename("queued", "ended")
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
open("queued", "w").close()
print("queued", file=sys.stderr, flush=True)
signal.pause()
"""
"""Waits for what it will hold, as salloc does in the queue."""

GIVES_OVER = """
if os.path.exists("late"):
    ready([parent.fileno()], None)
parent.hand_over()
os.execv(sys.executable, [sys.executable, "queued.py"])
"""


def test_a_program_that_waits_in_place_of_the_child_ends_when_the_parent_is_killed(
    tmp_path: Path,
) -> None:
    (tmp_path / "queued.py").write_text(QUEUED)
    argv = command(GIVES_OVER, hands_over=True)
    with subprocess.Popen(argv, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=tmp_path) as started:
        assert started.stderr is not None
        assert started.stderr.readline() == b"queued\n"
        started.kill()
    wait_for((tmp_path / "ended").exists, "SIGTERM to what waits")


def test_nothing_takes_the_place_of_a_child_whose_parent_is_gone(tmp_path: Path) -> None:
    (tmp_path / "queued.py").write_text("open('queued', 'w').close()")
    (tmp_path / "late").touch()
    argv = command(f"print('up', flush=True)\n{GIVES_OVER.strip()}", hands_over=True)
    ended, lives = os.pipe()
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=tmp_path, pass_fds=[lives]
    ) as started:
        os.close(lives)
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        started.kill()
        with os.fdopen(ended) as until_all_have_ended:
            until_all_have_ended.read()
    assert not (tmp_path / "queued").exists()
