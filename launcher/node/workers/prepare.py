"""From what the runner asks to what is executed here: checks first, then one Spec a worker."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from ...common.errors import DsrunError
from ...control import messages
from ...specs import environment
from ...specs.binding_policy import Manner
from ...specs.program import Program
from ...specs.rendezvous import Rendezvous
from .. import facts, ports, venv
from .. import processes as kernel
from ..binding import apply
from ..devices import Devices
from ..elastic import agent_environment
from . import error_file
from .devices import Equipment
from .spawn import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.messages import Slot
    from .logs import JobFolder, RankLog
    from .spawn import Process


BOOT = (
    b"import sys; sys.path[:] = [p for p in sys.path if p]; del sys.argv[0];"
    b"import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""Runs a file without its own folder, or the user's, among those that modules come from."""

INTERVAL = 0.05
"""Seconds between two looks of torch's agent at its workers; it can only look."""

PATIENCE = 2.0
"""Leases for the first node of a round to answer; if it is lost, the runner knows by then."""

BARRIER = 300.0
"""Seconds for which an agent that is done waits for the others, which is torch's own default."""


class Outfit:
    """One task on this node: what it needs, what is wrong with it, and its workers' commands.

    Everything that can fail is tried when it is made, so that HELLO can tell of all of it
    before anything runs anywhere.
    """

    def __init__(self, task: messages.Task, note: Callable[[str], None]) -> None:
        self.task = task
        self._note = note
        self._noted: set[str] = set()
        self._manner = Manner(*task.manner)
        self.program = Program(*task.program)
        self._problems: list[str] = []
        self._reservation: ports.Reservation | None = None
        self._base = _own_environment()
        self._check(facts.version_problem(task.dsrun))
        if task.by_engine:
            self._check(facts.host_problem(task.host))
        self.workdir = environment.from_wire(task.workdir)
        self._check(facts.folder_problem(self.workdir))
        self._python = self._find_python(self._enter_venv())
        self._path = environment.from_wire(self._base.get("PATH", os.defpath))
        if not self._problems:
            self._check_program()
        self._folder: JobFolder | None = None
        self._in_memory: list[int] = []
        self._find_devices()
        self._make_log_dir()
        self._reserve()

    def hello(self) -> messages.Hello:
        """Return this node's HELLO."""
        port = self._reservation.port if self._reservation else None
        return facts.hello(
            self.task,
            self._devices,
            self._slots,
            port,
            self._problems,
            _text(os.fsencode(self._folder.path)) if self._folder else "",
        )

    def let_store_in(self) -> None:
        """Stop listening on the master port, where rank 0's store is to listen."""
        if self._reservation is not None:
            self._reservation.open_to_store()

    def let_port_go(self) -> None:
        """Hold the master port no more: the next job may have the same."""
        if self._reservation is not None:
            self._reservation.close()

    def fit(self, start: messages.Start) -> tuple[list[Spec], dict[int, RankLog]]:
        """Return every worker's Spec, and its log files where they are asked for.

        Raises:
            OSError: a log file cannot be created.
        """
        self._equipment = self._equip(start.slots)
        while self._in_memory:  # of the last round's workers
            os.close(self._in_memory.pop())
        bound = self._shares()
        specs = [
            self._spec(start, local, share)
            for local, share in enumerate(bound)
            if start.only in {None, local}
        ]
        return specs, self._open_logs(specs, start)

    # -- checks -----------------------------------------------------------------------------

    def _check(self, problem: str) -> None:
        if problem:
            self._problems.append(problem)

    def _enter_venv(self) -> bytes:
        """Source --venv_script; returns the python that it puts on PATH, b"" for none."""
        if not self.task.venv_script or not os.path.isdir(self.workdir):
            return b""
        script = environment.from_wire(self.task.venv_script)
        try:
            found = venv.environ_after(script, os.environb, self.workdir)
        except OSError as error:
            self._check(f"--venv_script {self.task.venv_script}: {(error.strerror or '').lower()}")
            return b""
        except ValueError as error:
            self._check(f"--venv_script {self.task.venv_script}: {error}")
            return b""
        self._base = {_text(name): _text(value) for name, value in found.items()}
        return venv.interpreter(os.environb, found)

    def _find_python(self, of_venv: bytes) -> bytes:
        """Return --python, else the python of --venv_script, else the one this runs on."""
        named = self.program.python
        if not named:
            return of_venv or os.fsencode(sys.executable)
        if "/" in named:
            return os.path.join(self.workdir, environment.from_wire(named))
        folders = environment.from_wire(self._base.get("PATH", os.defpath)).split(b":")
        found = [os.path.join(folder, environment.from_wire(named)) for folder in folders]
        return next((one for one in found if os.access(one, os.X_OK)), found[0])

    def _check_program(self) -> None:
        script = environment.from_wire(self.program.script)
        self._check(
            facts.program_problem(self.program, self._python, script, self.workdir, self._path)
        )

    def _find_devices(self) -> None:
        """Find the devices, and whether the slots and cores asked for are there."""
        task = self.task
        try:
            self._devices = Devices(self._base, task.env)
        except ValueError as error:
            self._check(str(error))
            self._devices = Devices({"DSRUN_ACCELERATOR": "cpu"}, {})
        self._slots = 0
        try:
            self._slots = len(task.slots) if task.slots is not None else self._devices.count()
            equipment = self._equip(task.slots or tuple(range(self._slots)))
            if self._manner.way != "none":
                environ = {**self._base, **task.env}
                self._warn(apply.check(environ, self._manner, equipment.seats))
        except (ValueError, DsrunError) as error:
            self._check(str(error))

    def _equip(self, slots: Sequence[Slot]) -> Equipment:
        return Equipment(self._devices, slots, self._manner)

    def _warn(self, text: str) -> None:
        if text:
            self._note(text)

    def _reserve(self) -> None:
        if self.task.port is None:
            return
        try:
            self._reservation = ports.Reservation(self.task.port)
        except OSError:
            self._check(ports.taken_problem(self.task.port))

    # -- the workers ------------------------------------------------------------------------

    @property
    def reports_bindings(self) -> bool:
        """Whether the runner wants to know what the workers are bound to."""
        return self._manner.report

    def agent(self, start: messages.Start, stdin: int) -> Spec:
        """Return torch's agent for this node, whose desk is its standard input."""
        folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "elastic")
        standin = [sys.executable, "-E", "-S", os.path.join(folder, "shim.py")]
        settings = {
            "role": self.task.role,
            "workers": len(start.slots),
            "job": self.task.job_id,
            "standin": standin,
            "interval": INTERVAL,
            "barrier": BARRIER,
            "patience": PATIENCE * self.task.lease,
            "rendezvous": None,
            "logs": self.task.logs_specs,
        }
        env = {**self._base, **self.task.env}
        if self.task.rendezvous is None:
            # Nodes may have different numbers of workers.
            env["TORCH_ELASTIC_WORKER_IDENTICAL"] = "0"
        else:
            # What the agents of the other nodes have been told holds here as well.
            settings["rendezvous"] = Rendezvous(*self.task.rendezvous)._asdict()
        wire = environment.from_wire
        program = os.fsencode(os.path.join(folder, "agent.py"))
        return Spec(
            rank=start.first_rank,
            argv=[self._python, b"-c", BOOT, program, json.dumps(settings).encode()],
            env={wire(name): wire(value) for name, value in env.items()},
            workdir=self.workdir,
            stdin=stdin,
        )

    def spare(self, worker: Spec, stdin: int) -> Spec:
        """Return what imports beforehand for such a worker, and awaits its order at `stdin`."""
        own = self.program.argv(_text(self._python), 0)
        at = len(worker.argv) - len(own) + 2  # behind the interpreter and its -u
        program = os.path.join(
            os.path.dirname(os.path.dirname(__file__)), "elastic", "warm_process.py"
        )
        words = [os.fsencode(program), ",".join(self.task.warm).encode()]
        return worker._replace(argv=[*worker.argv[:at], *words, *worker.argv[at:]], stdin=stdin)

    def bound(self, start: messages.Start, processes: Sequence[Process]) -> messages.Bound:
        """Return where these workers are, without the kernel's word on it."""
        pids = {one.spec.rank - start.first_rank: one.pid for one in processes}
        return self._equipment.bound(pids, start.first_rank)

    def _shares(self) -> list[apply.Share]:
        seats = self._equipment.seats
        if self._manner.way == "none":
            return apply.unbound(len(seats))
        devices = self._equipment.devices
        path = _text(self._path)
        return apply.bound(self._manner, seats, path, self._note, devices=devices)

    def _spec(self, start: messages.Start, local: int, share: apply.Share) -> Spec:
        rank = start.first_rank + local
        argv = self.program.argv(_text(self._python), 0 if self.task.one_device else local)
        return Spec(
            rank=rank,
            argv=[environment.from_wire(word) for word in (*share.prefix, *argv)],
            env=self._environment(start, local, share.threads),
            workdir=self.workdir,
            cpus=share.cpus,
            keep_stdin=self.task.keep_stdin and rank == 0,
        )

    def _environment(self, start: messages.Start, local: int, threads: int) -> dict[bytes, bytes]:
        task, size = self.task, len(start.slots)
        seat = environment.Seat(
            rank=start.first_rank + local,
            local_rank=0 if task.one_device else local,
            local_size=size,
            world_size=start.world_size,
            node_rank=start.node_rank,
            nodes=start.nodes,
            master_addr=start.master_addr,
            master_port=start.master_port,
            job_id=task.job_id,
            role=task.role,
            restarts=start.restarts,
            max_restarts=start.max_restarts,
            elastic=task.elastic,
            run_id=task.run_id,
            world=start.world,
            error_file=self._error_file(start, local),
        )
        entries = self._devices.entries(start.slots)
        alone = task.one_device or self._devices.alone
        shown = entries[local : local + 1] if alone else entries
        promised = environment.contract(seat) | environment.of_slurm(seat, self._base)
        promised |= agent_environment.variables(start, local)
        promised |= self._devices.mask(shown)
        promised |= self._equipment.variables(local, {**self._base, **task.env})
        promised["DSRUN_NODE_LAUNCHER"] = f"{os.getpid()}:{kernel.started(os.getpid())}"
        env = environment.worker(
            self._base,
            task.env,
            promised,
            first=task.workdir if self.program.folder_first else "",
            python="" if self.program.no_python else _text(self._python),
            threads=threads,
        )
        wire = environment.from_wire
        return {wire(name): wire(value) for name, value in env.items()}

    def _open_logs(self, specs: list[Spec], start: messages.Start) -> dict[int, RankLog]:
        if self._folder is None and not self.task.logs_specs:
            return {}
        from .logs import named_log, own_log

        if self._folder is None:
            named = {one.rank: self._named_files(start, one.rank) for one in specs}
            return {rank: named_log(paths, self._note_once) for rank, paths in named.items()}
        self._folder.make()
        files = {one.rank: self._files(start, one.rank - start.first_rank) for one in specs}
        again = start.generation > 1
        return {rank: own_log(paths, self._note_once, again=again) for rank, paths in files.items()}

    def _files(self, start: messages.Start, local: int) -> dict[int, str]:
        """Return the log files of a rank, by stream."""
        assert self._folder is not None
        return self._folder.files(start.first_rank + local, local, start.restarts)

    def _error_file(self, start: messages.Start, local: int) -> str:
        """Return where `record` of torch keeps a worker's exception, "" where that cannot be."""
        if self._folder is not None:
            return self._files(start, local)[0]
        with suppress(OSError):
            fd, path = error_file.in_memory()
            self._in_memory.append(fd)
            return path
        return ""

    def _note_once(self, text: str) -> None:
        """Tell of a log that ends, for the same reason on one disk in every round and rank."""
        reason = text.rpartition(": ")[2]
        if reason not in self._noted:
            self._noted.add(reason)
            self._note(text)

    def _named_files(self, start: messages.Start, rank: int) -> dict[int, str]:
        folder = os.fsdecode(self.workdir)
        files = agent_environment.log_files(start, rank - start.first_rank)
        return {stream: os.path.join(folder, path) for stream, path in files.items()}

    def _make_log_dir(self) -> None:
        """Make --log_dir itself, so that it is known before the start whether it can be."""
        if not (self.task.log_dir or self.task.log_private):
            return
        from .logs import job_folder

        self._folder = job_folder(self.task, self.workdir)
        if self._folder is None or self._problems:
            return
        try:
            self._folder.check()
        except FileExistsError:
            self._check(f"--log_dir {self.task.log_dir}: is a file; name a folder")
        except OSError as error:
            where = self.task.log_dir or self._folder.path
            self._check(f"--log_dir {where}: {(error.strerror or str(error)).lower()}")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _own_environment() -> dict[str, str]:
    return {_text(name): _text(value) for name, value in os.environb.items()}
