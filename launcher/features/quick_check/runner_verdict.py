"""The findings of dsrun-check about some nodes, and their consequences. Pure."""

from __future__ import annotations

import re

from ...common.records import NamedTuple
from ...common.text import plain
from ...head.fleet.hosts import by_cause
from ...specs.plan import OWN_PYTHON
from .runner_findings import Severity, line
from .runner_tables import GREEN, RED, YELLOW, CheckedState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .runner_answers import Answer
    from .runner_findings import Finding


class CheckVerdict(NamedTuple):
    """The facts and findings about nodes.

    Attributes:
        answers: the answers of the nodes that were asked, by name.
        missing: the reasons why other nodes are missing, by name.
        problems: why nodes cannot run a job together, as lines that begin with a node's name.
        found: the findings of the quick check.
        sync: the folder that nodes lack and --sync would copy, or "".
        strict: whether warnings are errors.
        python: the origin of the workers' Python, as in `Origin`.
    """

    answers: Mapping[str, Answer]
    missing: Mapping[str, str]
    problems: Sequence[str]
    found: Sequence[Finding]
    strict: bool = False
    sync: str = ""
    python: str = OWN_PYTHON

    @property
    def causes(self) -> dict[str, str]:
        """The reasons why nodes could not be asked, by name."""
        failed = {name: one.error for name, one in self.answers.items() if one.hello is None}
        return {**self.missing, **failed}

    @property
    def unresolved(self) -> list[str]:
        """The nodes whose names do not resolve, so that nothing can be started on them."""
        return [name for name, cause in self.causes.items() if UNRESOLVED in cause]

    @property
    def errors(self) -> list[str]:
        """The errors, one line each, in the order in which they can be mended."""
        unfit = in_order([*by_cause(self.causes), *self.problems])
        found = [_line(one) for one in self.found if self._is_error(one)]
        return [plain(line) for line in (*unfit, *found)]

    @property
    def warnings(self) -> list[str]:
        """The warnings, one line each."""
        return [plain(_line(one)) for one in self.found if not self._is_error(one)]

    def usable(self, name: str) -> bool:
        """Return whether a node has answered, and reported no problem about itself."""
        answer = self.answers.get(name)
        return answer is not None and answer.hello is not None and not answer.hello.problems

    def state(self, name: str) -> CheckedState:
        """Return the result for a node."""
        if name in self.causes:
            return CheckedState("not reached" if name in self.missing else "no answer", RED)
        mine = [one for one in self.found if name in one.nodes]
        answer = self.answers.get(name)
        own = len(answer.hello.problems) if answer is not None and answer.hello is not None else 0
        problems = max(own, sum(line.startswith(f"{name}: ") for line in self.problems))
        errors = problems + sum(map(self._is_error, mine))
        warnings = len(mine) + problems - errors
        if errors:
            return CheckedState(_counted(errors, "error"), RED)
        return (
            CheckedState(_counted(warnings, "warning"), YELLOW)
            if warnings
            else CheckedState("ok", GREEN)
        )

    def _is_error(self, one: Finding) -> bool:
        return self.strict or one.severity is Severity.ERROR


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _line(one: Finding) -> str:
    return line(one).removeprefix("check: ")


UNRESOLVED = "its name does not resolve"
"""The cause for a host without any other evidence."""

STAGES = (
    UNRESOLVED,
    r"no answer: |no route to it|connection refused|no sshd|its sshd|ProxyJump",
    r"host key",
    r"authentication failed",
    r"(no Python at|no permission to run|Python \S+ or newer|is Python)\b|: Python /\S+: ",
    r"no such (folder|script|program)|\bmay not (enter|list|read|execute) ",
)
"""Words of causes and problems in each stage: name, sshd, host key, key, Python, files."""


def in_order(lines: Iterable[str]) -> list[str]:
    """Return lines `HOSTS: TEXT` in the order of their stages; lines without a stage are last."""
    return sorted(lines, key=_stage)


def _stage(line: str) -> int:
    text = line.partition(": ")[2]
    return next((at for at, stage in enumerate(STAGES) if re.search(stage, text)), len(STAGES))
