"""Collect the variables that go to the nodes, from files, options and this environment."""

from __future__ import annotations

import os

from ..common import files, system
from ..common.errors import UsageError, conflict, reason
from ..specs import environment
from ..specs.host import PRIVATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..cli.options import Options
    from ..specs.environment import ForwardedEnv

ENV_FILES = (".deepspeed_env", ".dsrun_env")
"""Files that are read from the home folder, then from the current folder, if they exist."""


def travel(options: Options, tell: Callable[[str], object] = str) -> ForwardedEnv:
    """Return the variables that go to the nodes.

    Args:
        options: the options that name files and variables.
        tell: called with a warning if the home folder cannot be read, so that its files have no
            effect.

    Raises:
        UsageError: an environment file, an --export or the --accelerator is invalid.
    """
    from ...accelerator import vendors

    named: dict[str, str] = {}
    for path, place in env_files(options):
        named |= _env_file(path, place, tell)
    named |= environment.exports(options.export, os.environ)
    try:
        named |= vendors.named(_accelerator(options), "--accelerator")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return environment.travel(os.environ, named, vendors.prefixes())


def _accelerator(options: Options) -> str | None:
    """Return the vendor that the user names, possibly by --nproc_per_node, as for torchrun."""
    own = options.nproc_per_node if options.nproc_per_node in PRIVATE else None
    if own and options.accelerator not in {None, own}:
        raise conflict(f"--nproc_per_node {own}", f"--accelerator {options.accelerator}")
    return own or options.accelerator


def env_files(options: Options) -> list[tuple[str, str]]:
    """Return the environment files with their origins; later files override earlier ones.

    The origin is the option or variable that names the file, "" for a default file, which need not
    exist.
    """
    folders = tuple(filter(None, (files.home(), ".")))
    usual = [os.path.join(folder, name) for folder in folders for name in ENV_FILES]
    own = os.environ.get("DS_ENV_FILE", "")
    if own:
        known = [os.path.join(folder, own) for folder in folders]
        usual = [_at_home(own)] if os.sep in own else [*filter(os.path.exists, known)]
        usual = usual or known[-1:]
    place = "DS_ENV_FILE " if own else ""
    return [
        *((path, place) for path in usual),
        *((path, "--env_file ") for path in options.env_file),
    ]


def _at_home(path: str) -> str:
    if not path.startswith("~"):
        return path
    from ..common.account import at_home

    return at_home("DS_ENV_FILE", path)


def _env_file(path: str, place: str, tell: Callable[[str], object]) -> dict[str, str]:
    def check(status: os.stat_result) -> None:
        if status.st_uid not in {0, os.getuid()} or status.st_mode & 0o002:
            raise UsageError(f"{shown}: belongs to another user or is writable by all; not read")

    shown = f"{place}{path}"
    try:
        text = files.read(path, check=check).decode("utf-8-sig", "surrogateescape")
    except FileNotFoundError:
        if place:
            raise UsageError(f"{shown}: no such file") from None
        return {}
    except OSError as error:
        home = os.path.dirname(path)
        if not place and home == files.home() and not system.access(home, os.X_OK):
            tell(f"nothing in the home folder {home} is read: {reason(error)}")
            return {}
        raise UsageError(f"{shown}: {reason(error)}") from None
    return environment.parse_env_file(text, shown)
