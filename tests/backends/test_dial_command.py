"""What a command prints: tokens, and its own lines."""

from __future__ import annotations

from dsrun.launcher.backends.dial_command import LONGEST, DialCommand
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth

from ..support.limits import HANG


class Owner:
    """Records the calls."""

    def __init__(self, text: str) -> None:
        self.loop = Loop()
        self.tokens: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.code: int | None = None
        command = DialCommand(["/bin/sh", "-c", text], {}, self.loop, self)
        self.loop.call_later(HANG, self.loop.stop)
        self.loop.run()
        assert command.child.code == self.code

    def on_token(self, node: str, token: str) -> None:
        """Record a token."""
        self.tokens.append((node, token))

    def on_line(self, line: str) -> None:
        """Record a line."""
        self.lines.append(line)

    def on_end(self, code: int, errors: str) -> None:  # noqa: ARG002
        """Stop, once the rest of its output has been read."""
        self.code = code
        self.loop.stop()


def test_tokens_are_told_from_lines_whatever_stands_before_them() -> None:
    one, other = auth.announcement("n1", "T1"), auth.announcement("3@n2", "T2")
    owner = Owner(f"echo motd; echo '{one}'; echo '[1,0] {other}'; echo oops >&2; exit 4")
    assert owner.tokens == [("n1", "T1"), ("3@n2", "T2")]
    assert (sorted(owner.lines), owner.code) == (["motd", "oops"], 4)


def test_bytes_that_are_no_text_and_lines_that_come_in_parts() -> None:
    owner = Owner(r"printf 'a\377 '; printf '\tb\r\n'; printf 'no end'")
    assert owner.lines == ["a\ufffd \tb"]


def test_a_line_without_an_end_costs_no_memory_and_hides_no_token() -> None:
    long = f"head -c {4 * LONGEST} /dev/zero; echo ' {auth.announcement('n1', 'T')}'"
    assert Owner(f"PATH=/usr/bin:/bin; {long}").tokens == [("n1", "T")]
