"""The command of a node launcher on another machine, where dsrun may be missing."""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from ... import __version__
from ..base import entry, package_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.backend import BackendSettings

# This passes through shells of every kind: the only quote is the double one, and there is no
# backslash, dollar, percent or exclamation mark. The current folder is dropped before any import,
# and the version is checked first, so the rest has to be correct only for the grammar of Python 2.
_BOOT = (
    "import sys;sys.path[:]=[p for p in sys.path if p];import os;r,v,h=sys.argv[1:4];"
    'sys.version_info<(3,10) and sys.exit("python 3.10 or newer is needed, this is "+sys.version);'
    'del sys.argv[1:4];e={};n=r+"/launcher/__init__.py";'
    'u=lambda c:__import__("zlib").decompress(__import__("binascii").a2b_base64(c));'
    "os.access(n,4) and v in open(n).read().split(chr(34)) or "
    'eval(compile(u("(FIND)"),"bootstrap","exec"),e);'
    'f,d=e["find"](v,h,u("(ASK)")) if e else (r,b"");'
    'm=type(sys)("dsrun");m.__path__=[f];sys.modules.update(dsrun=m);'
    "from dsrun.launcher.node.main import start;start(d)"
)
"""Starts the node launcher from the runner's own folder, if that holds an identical dsrun there.

Otherwise `bootstrap` finds another folder, or `ask` gets dsrun from the runner. `-E -S` ignores the
node's Python variables and site files, and starts faster.
"""


def remote_argv(settings: BackendSettings, *args: str) -> list[str]:
    """Return the command of a node launcher on a machine where dsrun may be missing."""
    from .contents import digest

    root = package_root()
    python = settings.python or sys.executable
    command = node_command(python, settings.root or root, digest(root))
    return [*command, *entry(settings), *args]


def node_command(python: str, root: str, digest: str) -> list[str]:
    """Return the command that starts a node launcher; its arguments follow.

    Args:
        python: the interpreter there.
        root: the folder to look for dsrun first.
        digest: the digest of the package that the runner sends if dsrun is missing.
    """
    return [python, "-E", "-S", "-c", boot(), root, __version__, digest]


def boot() -> str:
    """Return the program of `python -c`."""
    return _BOOT.replace("(FIND)", _packed("bootstrap")).replace("(ASK)", _packed("ask"))


def without_code(text: str) -> str:
    """Return a command line for people, without its code and its container."""
    before, entry, after = text.partition("--program=container ")
    if entry:
        text = f"{before}{entry}... {after.partition(' ')[2]}"
    return text.replace(_packed("bootstrap"), "...").replace(_packed("ask"), "...")


@lru_cache
def _packed(name: str) -> str:
    """Return a module of this folder, compressed, as text."""
    import binascii
    import zlib

    with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), "rb") as file:
        return binascii.b2a_base64(zlib.compress(file.read(), 9), newline=False).decode()
