"""What a program prints on a host, line by line."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.features.exec import runner_programs as programs
from dsrun.launcher.features.exec.runner_programs import LONGEST, ProgramOutput


class Printed:
    def __init__(self) -> None:
        self.said: list[Any] = []
        self.output = ProgramOutput("n0", self._line, self._end)

    def _line(self, host: str, line: bytes) -> None:
        self.said.append((host, line))

    def _end(self, host: str, code: int, why: str) -> None:
        self.said.append((host, code, why))


def test_output_becomes_lines_however_it_comes() -> None:
    printed = Printed()
    for data in (b"o", b"ne\ntwo\n\nth", b"ree"):
        assert printed.output.add(1, data)
    assert printed.said == [("n0", b"one"), ("n0", b"two"), ("n0", b"")]
    printed.output.finish(0, "")
    assert printed.said[3:] == [("n0", b"three"), ("n0", 0, "")]


def test_a_failure_is_told_by_the_last_line_of_errors() -> None:
    reasons = {}
    for code, why, errors in [
        (1, "", b"Traceback ...\nValueError: 3\n"),
        (127, "not found", b"x"),
        (3, "", b""),
        (0, "", b"a warning\n"),
    ]:
        printed = Printed()
        assert printed.output.add(2, errors)
        printed.output.finish(code, why)
        ((_, reasons[code], said),) = printed.said
        reasons[code] = said
    assert reasons == {1: "ValueError: 3", 127: "not found", 3: "it exited with code 3", 0: ""}


def test_errors_are_kept_to_a_bound() -> None:
    printed = Printed()
    assert printed.output.add(2, b"x" * (3 * programs.TAIL))
    printed.output.finish(1, "")
    assert len(printed.said[0][2]) == programs.TAIL


def test_a_line_without_end_ends_the_program() -> None:
    printed = Printed()
    block = b"x" * (LONGEST // 2)
    assert printed.output.add(1, block)
    assert printed.output.add(1, block)
    assert not printed.output.add(1, b"x")
    assert printed.said == [("n0", 1, "it printed a line that is too long")]
    assert not printed.output.add(1, b"more\n")
    printed.output.finish(143, "")
    assert len(printed.said) == 1
