"""A world whose job has several roles: the real job of roles on the runner's host."""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.backends.base import Part
from dsrun.launcher.common import system
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.roles.runner_launch import programs_of
from dsrun.launcher.head.job.launch import launch
from dsrun.launcher.head.job.start import PreparedStart
from dsrun.launcher.head.output.console import Console
from dsrun.launcher.head.run.events import Lost
from dsrun.launcher.node import main
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out
from dsrun.launcher.specs.policies import ElasticPolicy
from dsrun.launcher.specs.roles import Ready, RoleSpec, RolesSpec

from .labelled import lines_of
from .streams import ERRORS
from .world import REPORT, World, patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dsrun.launcher.head.job.control import JobControl
    from dsrun.launcher.specs.plan import Node

    from .kernel import Process
    from .scenario import ProgramSpec, RolePart

READY_WITHIN = 20.0
"""Seconds from the start of a role until it must be ready."""

FIRST_LINE = "step 0 "
"""What a role has printed that is ready with a line."""


class RolesWorld(World):
    """One world with a job of several roles; `of` in its history is the number of a role."""

    @property
    def bound(self) -> float:
        """When the job must have ended, in seconds of the world."""
        roles = self.scenario.roles
        starts = sum(1 + max(0, role.restarts) for role in roles)
        return (super().bound + READY_WITHIN) * (starts + 1)

    def job_of(self, env: Mapping[bytes, bytes]) -> dict[str, int]:
        """Return the number of the role of a worker with this environment."""
        names = [role.name for role in self.scenario.roles]
        return {"of": names.index(env[b"ROLE_NAME"].decode())}

    def program_of(self, job: int | None) -> ProgramSpec:
        """Return what the workers of a role do."""
        assert job is not None
        role, program = self.scenario.roles[job], self.scenario.program
        deeds = program.deeds if role.deeds else ()
        return program._replace(deeds=deeds, serves=role.ends == "never")

    def _program(
        self, process: Process, argv: Sequence[bytes], env: Mapping[bytes, bytes]
    ) -> Callable[[], object]:
        if argv[-1] == b"--stdio":
            process.role, process.name = "lane", "lane guard"
            self.record(process.host.name, "role", pid=process.pid, role="lane")
            return lambda: main.main(["--stdio"])
        return super()._program(process, argv, env)

    def _begin(self) -> None:
        roles = [role._asdict() | {"ranks": role.ranks} for role in self.scenario.roles]
        self.record("login", "roles", roles=roles, bound=self.bound)
        for number, role in enumerate(self.scenario.roles):
            self._begin_role(number, role)

    @property
    def _spares(self) -> dict[str, int]:
        """The hosts without a role; any role may move there."""
        used = {name for role in self.scenario.roles for name, _, _ in role.slots}
        return {host.name: 0 for host in self.scenario.hosts if host.name not in used}

    def _begin_role(self, number: int, role: RolePart) -> None:
        """Record what is asked for."""
        self.record(
            "login",
            "job",
            of=number,
            nodes={**self._spares, **{name: end - first for name, first, end in role.slots}},
            elastic=role.elastic,
            least=1 if role.elastic else len(role.slots),
            max_restarts=max(0, role.restarts),
            window=0.0,
            grace=self.scenario.grace,
            lease=self.scenario.lease,
            background=False,
            bound=self.bound,
        )

    def _run(self) -> int:
        """Be the runner; return its exit code."""
        self.streams.open_others()
        remote = cast("Any", self.remote)
        whole = self.job()._replace(held=True)
        spec = RolesSpec(whole, tuple(map(self._role, self.scenario.roles)))
        start = PreparedStart(whole.plan, [Part(remote, whole.plan.nodes)])
        loop = Loop()
        console = Console(loop, fold="never", environ={})

        def backend_for(node: Node) -> Part:
            return Part(remote, [node])

        programs = programs_of(spec)
        ending = launch(whole, start, backend_for, loop, console, self._on_job, programs)
        if ending.error is not None:
            system.write_error(f"dsrun: {ending.error}\n")
        return ending.code

    def _role(self, part: RolePart) -> RoleSpec:
        job = self.job()
        hosts = [Host(name, tuple(range(first, end))) for name, first, end in part.slots]
        log = job.output._replace(report_file=None, log_part=part.name)
        job = job._replace(plan=job.plan._replace(nodes=lay_out(hosts)), output=log)
        if part.elastic:
            limits = ElasticPolicy(1, len(hosts), max(0, part.restarts))
            limits = limits._replace(patience=patience(self.scenario.grace))
            job = job._replace(elastic=limits)
        ready = Ready("line", what=FIRST_LINE) if part.line else Ready()
        return RoleSpec(
            part.name,
            job,
            part.ends,
            part.after,
            ready._replace(timeout=READY_WITHIN),
            on_failure="job" if part.restarts < 0 or part.elastic else "restart",
            max_restarts=max(0, part.restarts),
        )

    def _on_job(self, job: JobControl) -> None:
        """Record what the runner loses."""
        names = [role.name for role in self.scenario.roles]
        job.observe_runs(
            lambda run: run.observe(partial(self._on_run_event, names.index(run.role)))
        )

    def _on_run_event(self, number: int, event: object) -> None:
        if isinstance(event, Lost):
            fields = {"node": event.host, "reason": event.reason, "survived": event.survived}
            self.record("login", "lost", **fields, of=number)

    def _on_end(self, pid: int, status: int) -> None:
        """Record what the runner has left when it ended."""
        if self.runner is None or pid != self.runner.pid:
            return
        for line, rank, of in self._shown():
            self.record("login", "shown", rank=rank, line=line, **of)
        if report := self._file(REPORT):
            self.record("login", "report", report=json.loads(report))
        code = os.waitstatus_to_exitcode(status)
        self.record("login", "exit", code=code, signalled=code < 0)

    def _shown(self) -> Iterator[tuple[str, int, dict[str, int]]]:
        """Yield the lines that were shown, with rank and role."""
        out = self._printed().splitlines(keepends=True)
        for number, role in enumerate(self.scenario.roles):
            own = "".join(line for line in out if line.startswith(f"{role.name}/"))
            yield from ((line, rank, {"of": number}) for line, rank in lines_of(own, ""))
        yield from ((line, rank, {}) for line, rank in lines_of("", self._file(ERRORS)))
