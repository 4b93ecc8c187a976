"""Editors and a worker, with debugpy between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...support.limits import HANG
from .debugged import listening

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .debugged import Debugged

SCRIPT = """\
import itertools, time
print("begin")
def twice(n):
    double = 2 * n
    return double
for n in itertools.count():
    twice(n)
    time.sleep(0.02)
    if n > 10 and go_on:
        break
print("end")
""".replace("go_on", "__import__('os').path.exists('done')")


def test_editors_come_and_go_and_the_worker_goes_on(
    tmp_path: Path, debugged: Callable[..., Debugged]
) -> None:
    script = tmp_path / "x.py"
    script.write_text(SCRIPT)
    job = debugged(script)
    editor = job.editor()
    editor.attach(str(script), 5)
    thread, frame = editor.stopped()
    assert (frame["name"], frame["line"]) == ("twice", 5)
    assert editor.locals(frame) == {"n": "0", "double": "0"}
    editor.ask("setBreakpoints", source={"path": str(script)}, breakpoints=[])
    editor.ask("continue", threadId=thread)
    assert listening(job.worker.pid) | listening(job.programs[0].pid) == set()
    editor.ask("disconnect")
    editor.leave()
    assert job.programs[0].wait(HANG) == 0

    second = job.editor()  # which is killed at a breakpoint, with its program
    second.attach(str(script), 4)
    _, frame = second.stopped()
    assert editor_locals(second.locals(frame)) > 0
    job.programs[1].kill()
    second.close()

    third = job.editor()
    third.attach(str(script), 4)
    third.stopped()
    third.leave()  # without a word
    assert job.programs[2].wait(HANG) == 0
    (tmp_path / "done").touch()
    assert job.output() == "begin\nend\n"


def editor_locals(found: dict[str, str]) -> int:
    """The one variable that is there before its line has run."""
    return int(found["n"])


def test_the_end_of_the_worker_is_told(tmp_path: Path, debugged: Callable[..., Debugged]) -> None:
    script = tmp_path / "x.py"
    script.write_text("x = 1\n")
    job = debugged(script)
    editor = job.editor()
    editor.attach(str(script))
    editor.until(event="terminated")
    assert job.output() == ""
    editor.leave()
    assert job.programs[0].wait(HANG) == 0
