"""Nodes that a program holds, for one job after another, or several at once."""

from __future__ import annotations

import os
import select
import time
from functools import partial

from ..cli.tool_parser import parse as parse_hold
from ..common.errors import LOST, DsrunError, LostError
from ..common.records import NamedTuple
from ..control import frames
from ..control.local_client import checked
from ..features.hold import plan_held as held
from ..features.hold.plan import plan_hold
from ..planning import rendezvous
from ..specs import codec
from .errors import JobError, LaunchError
from .hold_process import FAILED
from .job import Job
from .launching import Planner, check_output, described, shown
from .options import words
from .plan import as_launch_error, parsed
from .process import RunnerProcess
from .serve import INHERIT
from .wait_readable import Readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..cli.parser import Command
    from ..control.local_client import LocalClient
    from ..specs.hold import HoldSpec
    from ..specs.job import JobSpec
    from ..specs.roles import RolesSpec
    from .launching import Sink
    from .plan import Target
    from .roles import Role

QUIET = "warning"
"""The default log level of a fleet: the program knows that it holds nodes."""


class FleetNode(NamedTuple):
    """A node of a fleet.

    Attributes:
        slots: its slots: the places of ranks.
        state: "free", "busy" (a job uses some of its slots) or "lost".
        reason: why it is lost, "" if it is not.
    """

    name: str
    slots: tuple[int | str, ...]
    state: str
    reason: str


class HeldJob:
    """The connection of one job to the process that holds the nodes."""

    def __init__(self, client: LocalClient, pid: int) -> None:
        self.client = client
        self.pid = pid

    def close(self) -> None:
        """End the connection; the job is stopped, if it has not ended."""
        self.client.close()


class Fleet:
    """Connected nodes on which jobs start at once, the counterpart of `dsrun-hold` in a terminal.

    The nodes are released when the `with` block is left, by `close`, and when this program ends;
    jobs that still run are stopped then.

    Attributes:
        name: the name by which others can use the nodes as well: `dsrun --on NAME`.
        pid: the process that holds the nodes.
    """

    def __init__(self, *, name: str = "", idle_timeout: float = 0.0, **options: object) -> None:
        """Begin to connect nodes; `wait`, or the `with` statement, waits until that is done.

        Args:
            name: the name of the fleet; "" for a short new one.
            idle_timeout: seconds without a job after which the nodes are released; 0 for never.
            options: options of `dsrun-hold` by their names; `hosts` is `--host`.

        Raises:
            LaunchError: the nodes cannot be planned; nothing was started.
        """
        spec = _spec(name, idle_timeout, options)
        self.name = spec.name
        self._process = RunnerProcess("dsrun.launcher.api.hold_process")
        self.pid = self._process.pid
        self._client = self._process.client
        self._error: LaunchError | None = None
        self._ready = False
        try:
            self._client.send({"do": "hold", "spec": codec.encode(spec)})
            self._question = self._client.send({"do": "describe"})
        except LostError as error:
            self._fail(str(error), LOST)

    # -- the nodes --------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the nodes are connected.

        Args:
            timeout: seconds to wait; None for no limit.

        Raises:
            LaunchError: the nodes cannot be used; nothing is left running.
            TimeoutError: the nodes are not connected in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()
        while not self._settled():
            poll.register(self._client.fileno(), select.POLLIN)
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            if not poll.poll(left):
                raise TimeoutError(f"the nodes did not connect within {timeout:g} s")

    def nodes(self) -> tuple[FleetNode, ...]:
        """Return the nodes as they are now.

        Raises:
            JobError: the process that holds the nodes has died; or see `wait`.
        """
        self.wait()
        try:
            answer = self._client.ask({"do": "describe"})
        except DsrunError as error:
            raise self._lost(error) from None
        return tuple(
            FleetNode(one["name"], tuple(one["slots"]), one["state"], one["reason"])
            for one in answer["hosts"]
        )

    def close(self) -> None:
        """Stop all jobs and release the nodes; returns once that is done."""
        self._ready = False
        self._error = self._error or LaunchError(f"fleet {self.name} is closed")
        self._process.close()

    def __enter__(self) -> Fleet:
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Fleet:
        readable = Readable(self._client.fileno())
        try:
            while not self._settled():
                await readable.wait()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # -- jobs -------------------------------------------------------------------------------

    def run(
        self,
        target: Target | None = None,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        *,
        roles: Sequence[Role] | None = None,
        output: Sink = "print",
        lines: bool = True,
        wait: bool = True,
        **options: object,
    ) -> Job:
        """Run a script, a function, or several, on the nodes; return the running job; see `launch`.

        Args:
            target: the path of a script, the name of a module with `module=True`, or a function.
            args: its arguments.
            kwargs: keyword arguments of a function.
            roles: the programs of a job of several, in place of the three above; it has the chosen
                nodes whole.
            output: the destination of the output.
            lines: whether an `Output` is a whole line.
            wait: wait until the slots are free; otherwise such a job is refused.
            options: options of dsrun by their names, but not those that choose hosts or launcher;
                `include`, `exclude`, `num_nodes` and `num_gpus` choose among the nodes.

        Raises:
            LaunchError: the job cannot be planned, or the nodes cannot be used.
        """
        check_output(output)
        self.wait()
        try:
            client = held.find(self.name)
        except DsrunError as error:
            raise self._lost(error) from None
        try:
            planner = Planner(partial(self._planned, client), partial(self._roles, client))
            job, fields = described((target, args, kwargs), roles, options, planner)
            busy = "wait" if wait else "refuse"
            request = {"do": "run", "busy": busy, "relay": True, **fields}
            number = _ask(client, request, inherits=output == INHERIT)
        except BaseException:
            client.close()
            raise
        names = [one.name for one in roles or ()]
        service = HeldJob(client, self.pid)
        return Job(service, number, job.job_id, shown(output), lines=lines, roles=names)

    def _planned(self, client: LocalClient, argv: Sequence[str]) -> JobSpec:
        with as_launch_error(argv):
            command = rendezvous.apply(self._command(argv).with_torchruns_logs())
            held.check(command)
            return held.held_job(command, held.nodes_of(client.ask({"do": "describe"})))

    def _roles(
        self, client: LocalClient, argv: Sequence[str], programs: Sequence[Sequence[str]]
    ) -> RolesSpec:
        from ..features.roles import plan_command_line as command_line
        from ..features.roles import plan_spec as spec

        command = self._command(argv)
        spec.check(command)
        held.check_given(self.name, command.given)
        nodes = held.nodes_of(client.ask({"do": "describe"}))
        return held.held_roles(command, command_line.tables(programs), nodes)

    def _command(self, argv: Sequence[str]) -> Command:
        command = parsed(argv)
        return command._replace(options=command.options.changed(on=self.name))

    # -- arriving data ----------------------------------------------------------------------

    def _settled(self) -> bool:
        """Read arrived data; return whether the nodes are connected.

        Raises:
            LaunchError: the nodes cannot be used.
        """
        if self._error is None and not self._ready:
            self._receive()
        if self._error is not None:
            raise self._error
        return self._ready

    def _receive(self) -> None:
        try:
            arrived = self._client.receive()
            for one in arrived or ():
                if one.kind == frames.EVENT and one.message.get("event") == FAILED:
                    self._fail(str(one.message["error"]), int(one.message["code"]))
                    return
                if one.message.get("id") == self._question:
                    checked(one.message)
                    self._ready = True
        except DsrunError as error:
            self._fail(str(error), error.exit_code)
            return
        if arrived is None:
            self._fail(f"the process that holds the nodes (pid {self.pid}) has died", LOST)

    def _fail(self, text: str, code: int) -> None:
        self._error = LaunchError(text, code)
        self._process.close()

    def _lost(self, error: DsrunError) -> JobError:
        return JobError(f"fleet {self.name}: {error}", LOST)

    def __repr__(self) -> str:
        state = "closed" if self._error else "ready" if self._ready else "connecting"
        return f"<Fleet {self.name}, {state}>"


def _spec(name: str, idle_timeout: float, options: Mapping[str, object]) -> HoldSpec:
    """Return the nodes to hold.

    Raises:
        LaunchError: an option is invalid.
    """
    level = {} if "quiet" in options or "log_level" in options else {"log_level": QUIET}
    argv = words({**options, **level})
    with as_launch_error(argv):
        command = parse_hold("dsrun-hold", argv, os.environ)
        return plan_hold(command.options, name, idle_timeout)


def _ask(client: LocalClient, request: dict[str, Any], *, inherits: bool) -> int:
    """Make a hold run a job; return the number of the request.

    Raises:
        LaunchError: the hold is gone.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        return client.send(request, (null, 1, 2) if inherits else (null,))
    except LostError as error:
        raise LaunchError(str(error), LOST) from None
    finally:
        os.close(null)
