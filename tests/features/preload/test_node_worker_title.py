"""A command and variables as other processes see them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload import node_worker as title

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = [
    ([b"/opt/python3.12", b"-u", b"a b", b"", b"\xff"], {}),
    ([b"sh"], {b"A": b"1\n2", b"B": b""}),
    ([b"a/name/that/is/longer_than_fifteen_bytes", b"x" * 300_000], {b"C": b"y" * 300_000}),
]


def seen(action: Callable[[], object]) -> tuple[bytes, bytes, bytes]:
    """What others see of a fork that does this: command, variables, name."""
    done, told = os.pipe()
    end, ended = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ended)
        action()
        os.write(told, b"x")
        os.read(end, 1)
        os._exit(0)
    assert os.read(done, 1) == b"x"
    files = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "comm")]
    for fd in (done, told, end, ended):
        os.close(fd)
    os.waitpid(pid, 0)
    command, variables, name = files
    return command, variables, name


@pytest.mark.parametrize(("words", "env"), COMMANDS)
def test_a_command_of_any_length_is_seen(words: list[bytes], env: dict[bytes, bytes]) -> None:
    command, variables, name = seen(lambda: title.show(words, env))
    assert command == b"".join(word + b"\0" for word in words)
    assert variables == b"".join(b"%b=%b\0" % one for one in env.items())
    assert name == os.path.basename(words[0])[:15] + b"\n"  # noqa: PTH119


def test_without_the_kernels_help_there_is_as_much_as_fits() -> None:
    room = len(Path("/proc/self/cmdline").read_bytes())
    line = b"python\0-u\0" + b"x" * 300_000
    command, _, _ = seen(lambda: title._overwrite(line, title._stat()))
    assert command == line[: room - 1] + b"\0"


def test_the_heap_still_grows_afterwards() -> None:
    def grow() -> None:
        title.show([b"python"], {})
        kept = [bytearray(100_000) for _ in range(100)] + [b"x" * at for at in range(9000)]
        assert len(kept) == 9100

    assert seen(grow)[0] == b"python\0"
