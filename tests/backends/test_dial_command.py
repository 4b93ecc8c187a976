"""What a command prints: tokens, and its own lines."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dsrun.launcher.backends.dial_command import LONGEST, DialCommand
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth

from ..support.limits import HANG, wait_for

LABEL = r"([a-z][0-9]): ?"


class Owner:
    """Records the calls."""

    def __init__(self, text: str) -> None:
        self.loop = Loop()
        self.tokens: list[tuple[str, str, str]] = []
        self.lines: list[tuple[str, str]] = []
        self.unlabelled = 0
        self.code: int | None = None
        command = DialCommand(["/bin/sh", "-c", text], {}, self.loop, self, LABEL)
        self.loop.call_later(HANG, self.loop.stop)
        self.loop.run()
        assert command.child.code == self.code

    def on_token(self, speaker: str, node: str, token: str) -> None:
        """Record a token."""
        self.tokens.append((speaker, node, token))

    def on_line(self, speaker: str, text: str) -> None:
        """Record a line."""
        self.lines.append((speaker, text))

    def on_unlabelled(self) -> None:
        """Count it."""
        self.unlabelled += 1

    def on_end(self, code: int, errors: str) -> None:  # noqa: ARG002
        """Stop, once the rest of its output has been read."""
        self.code = code
        self.loop.stop()


def test_tokens_are_told_from_lines_and_who_has_printed_them() -> None:
    one, other = auth.announcement("n1", "T1"), auth.announcement("3@n2", "T2")
    owner = Owner(f"echo motd; echo 'a1: {one}'; echo 'b2:  {other}'; echo 'b2: oops' >&2; exit 4")
    assert owner.tokens == [("a1", "n1", "T1"), ("b2", "3@n2", "T2")]
    assert (sorted(owner.lines), owner.code) == ([("", "motd"), ("b2", "oops")], 4)
    assert owner.unlabelled == 0


def test_a_token_counts_only_directly_behind_a_label() -> None:
    said = auth.announcement("n2", "T")
    lines = (f"a1: b2: {said}", f"a1: partb2: {said}", f"a1: [b2] {said}", f"a1: {said} more")
    owner = Owner("\n".join(f"echo '{line}'" for line in lines))
    assert owner.tokens == []
    assert owner.lines == [("a1", line.removeprefix("a1: ")) for line in lines]


def test_tokens_without_labels_are_told_of_once() -> None:
    owner = Owner(f"echo '{auth.announcement('n1', 'T')}'; echo '{auth.announcement('n2', 'T')}'")
    assert (owner.tokens, owner.lines, owner.unlabelled) == ([], [], 1)


def test_bytes_that_are_no_text_and_lines_that_come_in_parts() -> None:
    owner = Owner(r"printf 'a\377 '; printf '\tb\r\n'; printf 'no end'")
    assert owner.lines == [("", "a\ufffd \tb")]


def test_a_line_without_an_end_costs_no_memory_and_hides_neither_label_nor_token() -> None:
    forged = f"b2: {auth.announcement('n2', 'F')}"
    spaces = f"head -c {4 * LONGEST} /dev/zero | tr '\\0' ' '"
    long = f"printf 'a1: '; {spaces}; printf '{forged}'; {spaces}; echo"
    owner = Owner(f"PATH=/usr/bin:/bin; {long}; echo 'a1: {auth.announcement('n1', 'T')}'")
    assert owner.tokens == [("a1", "n1", "T")]
    assert {speaker for speaker, _ in owner.lines} == {"a1"}


class Killed(Owner):
    """Is killed as soon as the command has printed anything, with the process that it is in."""

    def on_token(self, speaker: str, node: str, token: str) -> None:  # noqa: ARG002
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)

    def on_line(self, speaker: str, line: str) -> None:  # noqa: ARG002
        """Die."""
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("prints", "then", "becomes"),
    [
        ("waiting for resources", "sleep 1200 & wait", "signalled\n"),
        (f"a1: {auth.announcement('n1', 'T')}", "echo ended > told", "ended\n"),
    ],
)
def test_a_command_that_still_waits_ends_with_the_process_that_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prints: str, then: str, becomes: str
) -> None:
    """Its standard input ends in both cases."""
    monkeypatch.chdir(tmp_path)
    trap = "trap 'echo signalled > told; kill $!; exit' TERM; PATH=/usr/bin:/bin"
    pid = os.fork()
    if pid == 0:
        try:
            Killed(f"{trap}; echo '{prints}'; read -r line; {then}")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    told = Path("told")
    wait_for(lambda: told.exists() and told.read_text(), "the end of the command")
    assert told.read_text() == becomes
