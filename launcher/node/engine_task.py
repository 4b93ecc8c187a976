"""The number of this node launcher's task in an engine. Pure.

An engine starts one command everywhere, and gives each task its number in variables. The table of
backends lists these variables.
"""

from __future__ import annotations

from ..backends import BACKENDS
from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..backends.spec import TaskIdentity


def task_identity(engine: str, environ: Mapping[str, str], hostname: str) -> str:
    """Return "INDEX@NAME,NAME": this task's number in the job, and the names of its host.

    Raises:
        UsageError: the engine has set no such variable, or the variables disagree.
    """
    sources = BACKENDS[engine].engine
    assert sources is not None
    numbers = {name: environ[name] for name in sources.numbers if environ.get(name)}
    names = [environ[name] for name in sources.names if environ.get(name)]
    return f"{_agreed(engine, numbers, sources)}@{','.join(dict.fromkeys([*names, hostname]))}"


def _agreed(engine: str, numbers: Mapping[str, str], sources: TaskIdentity) -> int:
    if not numbers:
        listed = ", ".join(sources.numbers)
        raise UsageError(f"started by {engine}, but none of its variables is set here ({listed})")
    listed = ", ".join(f"{name}={value}" for name, value in numbers.items())
    if len(set(numbers.values())) > 1:
        raise UsageError(f"cannot tell which task of {engine} this is: {listed} disagree")
    value = next(iter(numbers.values()))
    if not value.isascii() or not value.isdigit():
        raise UsageError(f"cannot tell which task of {engine} this is: {listed} is not a number")
    return int(value)
