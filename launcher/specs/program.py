"""The program that every worker runs. Pure, and light: runner and node launcher import it."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEEPSPEEDS_RANK_OPTION = "--local_rank"
TORCHS_RANK_OPTION = "--local-rank"
"""The rank option of torch.distributed.launch (torch 2.13)."""

CHECK, NOTHING = "dsrun-hold", "dsrun-roles"
"""Placeholders for the program of a job that is never started itself: its nodes are held or
checked, or its roles have their own programs. No node looks for such a module."""


class Program(NamedTuple):
    """The program that every worker runs.

    Attributes:
        script: a path, a module name (`module`) or any executable (`no_python`).
        args: the script's own arguments, byte for byte.
        python: the interpreter on the nodes, if the user named one (--python).
        local_rank: whether to pass the local rank before the arguments, as DeepSpeed does.
        folder_first: whether to put the workers' folder at the front of PYTHONPATH.
        rank_option: the option that passes the local rank.
        project_python: the path of the interpreter on the nodes if the user named none, and
            --venv_script puts none on PATH; "" for the one that the node launcher runs on.
    """

    script: str
    args: tuple[str, ...] = ()
    module: bool = False
    no_python: bool = False
    python: str | None = None
    local_rank: bool = True
    folder_first: bool = False
    rank_option: str = DEEPSPEEDS_RANK_OPTION
    project_python: str = ""

    def argv(self, python: str, local_rank: int) -> list[str]:
        """Return one worker's command; `python` is the interpreter on its node."""
        start = [] if self.no_python else [python, "-u", *(["-m"] if self.module else [])]
        flag = [f"{self.rank_option}={local_rank}"] if self.local_rank else []
        # Python would take a file whose name begins with a dash for an option.
        dashed = self.script.startswith("-") and not (self.module or self.no_python)
        return [*start, f"./{self.script}" if dashed else self.script, *flag, *self.args]


def command_lines(programs: Mapping[str, Program]) -> str:
    """Return scripts and arguments in shell syntax, each after the name of its role, if any.

    Args:
        programs: the programs by role, "" for a job without roles.
    """
    import shlex

    lines = {role: shlex.join([one.script, *one.args]) for role, one in programs.items()}
    return "; ".join(f"{role}: {words}" if role else words for role, words in lines.items())
