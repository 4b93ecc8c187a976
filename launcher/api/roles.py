"""Jobs of several roles from a program: a `Role` for each, and the plan of the job."""

from __future__ import annotations

import os

from ..backends import allocates
from ..common.errors import UsageError
from ..features.roles import plan_command_line as command_line
from ..features.roles import plan_spec as spec
from ..features.roles.plan_file import ALSO
from ..node.workers.calls import CALL
from ..planning import rendezvous, this_node
from .errors import LaunchError
from .options import arguments, check_arguments, words
from .payload import name_of, payload_of
from .plan import EVERYWHERE, FOR_SCRIPTS, SCHEDULED, as_launch_error, parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..specs.roles import RolesSpec
    from .plan import Target

NAMES = {**ALSO, "env": "export"}
"""Names of options as in a file of roles."""


class Role:
    """One program of a job: docs/roles.md describes the options.

    Attributes:
        name: small letters, digits and `_`.
        target: the path of a script, the name of a module with `module=True`, a program with
            `no_python=True`, or a function that every rank calls.
        args: the arguments of the script, or of the function.
        kwargs: keyword arguments of the function.
        options: options by their names, or by the keys of a file of roles: `nodes=2`,
            `ends="job"`, `env={"A": "1"}`.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        """Describe a role; it is checked when the job is launched."""
        self.name, self.target = name, target
        self.args, self.kwargs = args, dict(kwargs or {})
        self.options = options

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Role({self.name!r}, {self.target!r}, {self.args!r}{options})"

    @property
    def words(self) -> list[str]:
        """The role as words of a command line.

        Raises:
            LaunchError: an option or an argument is of a wrong type.
        """
        check_arguments(self.args)
        options = {NAMES.get(name, name): value for name, value in self.options.items()}
        start = [f"{command_line.FLAG}={self.name}", *words(options), "--"]
        if callable(self.target):
            fixed = [name for name in FOR_SCRIPTS if options.get(name)]
            if fixed:
                raise LaunchError(f"{fixed[0]}: only for a script, not for a function")
            return [*start, CALL, name_of(self.target)]
        if self.kwargs:
            raise LaunchError("kwargs: only for a function; a script takes a list of arguments")
        return [*start, os.fspath(self.target), *arguments(self.args)]

    @property
    def payload(self) -> str:
        """The function that the workers call, pickled; "" for a script.

        Raises:
            LaunchError: the function cannot be sent.
        """
        if not callable(self.target):
            return ""
        return payload_of(self.target, tuple(self.args), self.kwargs)


def on_own_nodes(argv: Sequence[str], programs: Sequence[Sequence[str]]) -> RolesSpec:
    """Return the job of the options of the whole job and the words of its roles, on own nodes.

    Raises:
        UsageError: the command would reject the words.
    """
    command = parsed(argv)
    spec.check(command)
    if allocates(command.options.launcher):
        from ..features.schedulers import command_salloc as salloc

        if salloc.is_needed(command.options, os.environ):
            raise UsageError(SCHEDULED)
    command = this_node.apply(rendezvous.apply(command), os.environ)
    if command.joined:
        raise UsageError(EVERYWHERE.format(place=command.joined))
    return spec.roles_spec(command, command_line.tables(programs), spec.find_nodes(command))


def plan(
    roles: Sequence[Role],
    options: Mapping[str, object],
    planned: Callable[[Sequence[str], Sequence[Sequence[str]]], RolesSpec] = on_own_nodes,
) -> RolesSpec:
    """Return the job of several roles.

    Args:
        roles: its roles.
        options: options of the whole job.
        planned: returns the job of the options as words, and of the words of each role.

    Raises:
        LaunchError: the job cannot be planned, or a function cannot be sent.
    """
    if not roles or not all(isinstance(one, Role) for one in roles):
        raise LaunchError("roles: expected a list of Role, one for each program")
    argv = words({NAMES.get(name, name): value for name, value in options.items()})
    programs = [one.words for one in roles]
    with as_launch_error(argv):
        made = planned(argv, programs)
    payloads = [one.payload for one in roles]
    return made._replace(
        roles=tuple(
            one._replace(job=one.job._replace(payload=payload))
            for one, payload in zip(made.roles, payloads, strict=True)
        )
    )
