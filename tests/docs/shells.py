"""Shells in a terminal: what becomes of a line in which somebody presses Tab."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from dsrun.launcher.common.poll import ready

from ..support.checkout import BIN, CHECKOUT
from ..support.limits import HANG

if TYPE_CHECKING:
    from pathlib import Path

SHARE = CHECKOUT / "share"
COMMANDS = (
    "dsrun",
    "dsrun-topo",
    "dsrun-elastic",
    "dsrun-job",
    "dsrun-hold",
    "dsrun-exec",
    "dsrun-check",
)
SHOW = '() { for word in "$@"; do echo "<$word>"; done; echo END; }\n'
"""The body of a function that shows its arguments; it stands in for each command."""

LOOK = f"{sys.executable} -E -s {BIN}/dsrun-job"
ASKED = f"""
_show{SHOW}
dsrun-job() {{ if [ "$1" = --complete ]; then {LOOK} "$@"; else _show "$@"; fi; }}
"""
"""`dsrun-job`, which shows its arguments as well, but does look for what may be completed."""

BASH_SCRIPTS = "".join(f"source {SHARE}/bash-completion/completions/{name}\n" for name in COMMANDS)
BASH = BASH_SCRIPTS + "bind 'set bell-style none'\nbind 'set show-all-if-ambiguous off'\n"
ZSH = f"fpath=({SHARE}/zsh/site-functions $fpath)\nautoload -U compinit\ncompinit -u -D\n"


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, folder: Path, *argv: str) -> None:
        mine, theirs = pty.openpty()
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "PS1": ""}
        self._process = subprocess.Popen(
            argv, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._line = mine

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._line)

    def enter(self, keys: str, until: str) -> str:
        """Type keys; return what is printed until this text has come."""
        os.write(self._line, keys.encode())
        text, end = "", time.monotonic() + HANG
        while until not in text:
            left = end - time.monotonic()
            assert ready([self._line], left), f"{keys!r}: no {until!r} in {text!r}"
            text += os.read(self._line, 65536).decode(errors="replace")
        return text.replace("\r\n", "\n")


class Shell:
    """bash or zsh with the completion of all commands."""

    def __init__(self, name: str, folder: Path) -> None:
        start = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}[name]
        self._terminal = Terminal(folder, shutil.which(name) or name, *start)
        setup = {"bash": BASH, "zsh": ZSH}[name]
        setup += "".join(f"function {command}{SHOW}" for command in COMMANDS) + ASKED
        (folder / ".setup").write_text(setup)
        self._terminal.enter("source ./.setup; echo re''ady\n", "ready\n".replace("\n", "\r\n"))

    def arguments(self, line: str) -> list[str]:
        """Type a line with tabs in it; return the arguments that the command gets."""
        shown = self._terminal.enter(f"{line}\n", "END\r\n")
        words = [one for one in shown.splitlines() if one.startswith("<") and one.endswith(">")]
        return [one[1:-1] for one in words]

    def close(self) -> None:
        self._terminal.close()
