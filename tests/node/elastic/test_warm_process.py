"""A worker that has imported beforehand: its script cannot tell it from one that Python starts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import dsrun.launcher.node.elastic
from dsrun.launcher.specs.environment import ROUND, RankInfo, contract, of_slurm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAM = str(Path(dsrun.launcher.node.elastic.__file__).with_name("warm_process.py"))
PYTHON = (sys.executable, "-X", "utf8", "-u")
SECONDS = 30.0
"""For what takes a fraction of a second on an idle machine."""

ORDER = {"RANK": "5", "MASTER_ADDR": "caf\udce9"}
ENV = {
    "PATH": os.environ["PATH"],
    "LANG": "C.UTF-8",
    "RANK": "1",
    "LOCAL_RANK": "1",
    "ODD": "\udcff",
}

Ended = tuple[int, str, str]
"""Exit code, standard output and standard error."""


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process's end; addresses of objects are left out."""
    texts = process.communicate(timeout=SECONDS)
    out, err = (re.sub(r"0x[0-9a-f]+", "0x", text) for text in texts)
    return process.returncode, out, err


class Warm(NamedTuple):
    """A worker to be, and our end of its line."""

    process: subprocess.Popen[str]
    line: socket.socket

    def becomes(self, order: Mapping[str, str]) -> Ended:
        """Give it its order; returns how it ends."""
        self.line.sendall(json.dumps(order).encode())
        self.line.close()
        return self.ends()

    def ends(self) -> Ended:
        """Wait for its end."""
        return ended(self.process)


@contextmanager
def warm(cwd: Path, *words: str, modules: str = "colorsys", **env: str) -> Iterator[Warm]:
    """Start a worker of this command in this folder, and wait until it has imported."""
    ours, theirs = socket.socketpair()
    argv = [*PYTHON, PROGRAM, modules, *words]
    with ours:
        ours.settimeout(SECONDS)
        with theirs:
            process = started(argv, cwd, {**ENV, **env}, theirs.fileno())
        with process:
            try:
                assert ours.recv(1) == b"+", process.communicate()
                yield Warm(process, ours)
            finally:
                process.kill()


def started(argv: list[str], cwd: Path, env: dict[str, str], stdin: int) -> subprocess.Popen[str]:
    pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin, **pipe)


def plain(cwd: Path, *words: str, **env: str) -> Ended:
    """How the same command ends with nothing but Python."""
    return ended(started([*PYTHON, *words], cwd, {**ENV, **ORDER, **env}, subprocess.DEVNULL))


def same(cwd: Path, *words: str, **env: str) -> Ended:
    """Run a command both ways; returns the one way in which it ends."""
    with warm(cwd, *words, **env) as worker:
        found = worker.becomes(ORDER)
    assert found == plain(cwd, *words, **env)
    return found


def script(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(dedent(text))
    return name


FINDS = """
    import os, signal, sys
    print(__name__, __doc__, __file__, __spec__, __package__, type(__loader__), __builtins__)
    print([name for name in sorted(globals()) if name not in {"os", "signal", "sys"}])
    print(sys.modules["__main__"].__dict__ is globals())
    print(sys.argv, sys.orig_argv, sys.path, sys.flags, ascii(sorted(os.environ.items())))
    print(os.getcwd(), sys.stdin.read(), signal.getsignal(signal.SIGINT))
    print([(fd, os.readlink(f"/dev/fd/{fd}")) for fd in (0, 1, 2)][0], len(os.listdir("/dev/fd")))
"""

ENDS = {
    "failing": "def f():\n    return 1 / 0\nf()",
    "failing while it fails": "try:\n    x\nexcept NameError as e:\n    raise OSError('é') from e",
    "not Python": "print(1)\nthis is it",
    "in another encoding": "# coding: latin-1\nprint(len('é'))\n1 / 0  # é",
    "with a code": "import sys; sys.exit(3)",
    "with words": "import sys; sys.exit('words')",
    "well": "raise SystemExit",
    "interrupted": "raise KeyboardInterrupt",
    "by a signal": "import os; os.kill(os.getpid(), 15)",
    "in a thread": "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    "in a hook of its own": "import sys; sys.excepthook = lambda *a: print('hook', a); 1 / 0",
    "with handlers": "import atexit; atexit.register(lambda: print(__name__)); import nothing",
}

PICKLES = """
    import multiprocessing, pickle

    class Ours:
        pass

    def told(queue):
        queue.put(Ours())

    if __name__ == "__main__":
        print(type(pickle.loads(pickle.dumps(Ours()))) is Ours)
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=told, args=(queue,))
        process.start()
        print(type(queue.get()) is Ours)
        process.join()
"""


@pytest.mark.parametrize("name", ["train.py", "sub/train", "./train.py"])
def test_a_script_finds_what_it_always_finds(tmp_path: Path, name: str) -> None:
    script(tmp_path, FINDS, name)
    code, out, err = same(tmp_path, name, "--local_rank=1", "", "a b", "\udcff")
    assert (code, err) == (0, "")
    assert "('RANK', '5')" in out


def test_so_does_a_module(tmp_path: Path) -> None:
    script(tmp_path, FINDS, "pack/train.py")
    code, _, err = same(tmp_path, "-m", "pack.train", "--lr", "1")
    assert (code, err) == (0, "")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="from Python 3.11 on")
def test_so_does_one_without_its_folder_on_the_path(tmp_path: Path) -> None:
    assert same(tmp_path, script(tmp_path, FINDS), PYTHONSAFEPATH="1")[0] == 0


def test_a_link_to_a_script_has_the_scripts_folder(tmp_path: Path) -> None:
    script(tmp_path, FINDS, "far/train.py")
    (tmp_path / "link.py").symlink_to("far/train.py")
    assert f"{tmp_path}/far" in same(tmp_path, "link.py")[1]


@pytest.mark.parametrize("how", ENDS)
def test_it_ends_as_ever(tmp_path: Path, how: str) -> None:
    assert PROGRAM not in same(tmp_path, script(tmp_path, ENDS[how]))[2]


@pytest.mark.parametrize("module", ["pack.fails", "pack.none", "pack"])
def test_so_does_what_is_wrong_with_a_module(tmp_path: Path, module: str) -> None:
    script(tmp_path, "1 / 0", "pack/fails.py")
    assert same(tmp_path, "-m", module)[0] == 1


def test_what_a_script_defines_can_be_pickled(tmp_path: Path) -> None:
    assert same(tmp_path, script(tmp_path, PICKLES)) == (0, "True\nTrue\n", "")


def test_a_folder_an_archive_and_nothing_are_left_to_python(tmp_path: Path) -> None:
    script(tmp_path, FINDS, "folder/__main__.py")
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(tmp_path / "folder" / "__main__.py", "__main__.py")
    assert [same(tmp_path, name)[0] for name in ("folder", "archive", "none.py")] == [0, 0, 2]


SHOWS = """
    import sys
    print(*(name for name in ("colorsys", "mine", "broken") if name in sys.modules))
"""


def shown(folder: Path, modules: str) -> str:
    """Which modules a script finds imported."""
    script(folder, "print('imports')", "mine.py")
    script(folder, "import no_such_module; 1 / 0", "lacks.py")
    script(folder, "1 / 0", "broken.py")
    with warm(folder, script(folder, SHOWS), modules=modules) as worker:
        code, out, err = worker.becomes(ORDER)
    assert (code, err) == (0, "")
    return out


def test_modules_are_there_before_the_script(tmp_path: Path) -> None:
    """The script's own as well, and what they print is the worker's."""
    assert shown(tmp_path, "colorsys,mine") == "imports\ncolorsys mine\n"


def test_a_module_that_is_not_there_is_left_to_the_script(tmp_path: Path) -> None:
    assert shown(tmp_path, "none_such,lacks,colorsys") == "colorsys\n"


def test_a_module_that_fails_leaves_all_to_the_script(tmp_path: Path) -> None:
    assert shown(tmp_path, "colorsys,broken") == "\n"


def test_without_an_order_it_ends_without_a_word(tmp_path: Path) -> None:
    with warm(tmp_path, script(tmp_path, "print('no')")) as worker:
        worker.line.close()
        assert worker.ends() == (0, "", "")


def test_a_signal_ends_it_while_it_waits(tmp_path: Path) -> None:
    with warm(tmp_path, script(tmp_path, "print('no')")) as worker:
        worker.process.send_signal(signal.SIGTERM)
        assert worker.ends() == (-signal.SIGTERM, "", "")


def test_the_order_is_what_changes_from_round_to_round() -> None:
    """All else is what the spare was started with, or no spare is taken."""
    seats = [
        RankInfo(0, 1, 2, 4, 0, 2, "n1", 1, "job", agent_store=True, world="a", error_file="a"),
        RankInfo(
            9,
            1,
            2,
            8,
            3,
            4,
            "n2",
            2,
            "job",
            restarts=1,
            max_restarts=3,
            agent_store=True,
            world="b",
            error_file="b",
        ),
    ]
    before, after = (contract(seat) | of_slurm(seat, {"SLURM_PROCID": ""}) for seat in seats)
    assert {name for name in before if before[name] != after[name]} == ROUND
