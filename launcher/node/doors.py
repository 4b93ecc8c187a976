"""The doors by which features enter a node: rows with names, imported when a job needs them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from ..common.entry import load
from ..common.records import NamedTuple
from ..control import frames
from ..specs.environment import JAX
from .service import OpeningTime, ServiceDoor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..control.messages import NodeJob
    from .workers.spawn import StartingWorkers, WorkerSpec


class NodeDoor(NamedTuple):
    """One feature of a job on its nodes.

    Attributes:
        name: the module, relative to `features/`, and the name of a function.
        applies: returns whether a job has the feature.
    """

    name: str
    applies: Callable[[NodeJob], bool]


OUTFITS = (
    NodeDoor(".stacks.node_outfit:outfit", lambda task: task.hooked),
    NodeDoor(".placeholders.node_outfit:outfit", lambda task: bool(task.workers.ends)),
    NodeDoor(".jax.node_outfit:outfit", lambda task: JAX in task.env),
    NodeDoor("..node.workers.calls:outfit", lambda task: bool(task.payload)),
    NodeDoor(".debug.node_sockets:outfit", lambda task: bool(task.debug_secret)),
)
"""Changes to how workers are executed. Each function takes the specs of the workers of a round and
their `StartingWorkers`, and returns a context of new specs, in which the workers start."""

SERVICES = (
    ServiceDoor(
        ".shards.node_service:QueueLines",
        OpeningTime.START,
        lambda task: task.workers.shard_queue,
        frame=frames.SHARD_ANSWER,
    ),
    ServiceDoor(".quick_check.node_probe_service:Probes", OpeningTime.FRAME, frame=frames.PROBE),
    ServiceDoor(
        ".quick_check.node_reach_service:Reaching",
        OpeningTime.HELLO,
        lambda task: task.reach,
        frame=frames.REACH,
    ),
    ServiceDoor(".diagnosis.node_death_watch:DeathWatch", OpeningTime.EACH_START),
    ServiceDoor(
        ".diagnosis.node_port_watch:PortWatch",
        OpeningTime.EACH_START,
        lambda task: task.rendezvous is None and (task.port is not None or task.has_rounds),
    ),
    ServiceDoor(
        ".watch.node_activity:Sampler",
        OpeningTime.EACH_START,
        lambda task: task.sample > 0,
        delay=lambda task: task.sample,
    ),
    ServiceDoor(
        ".roles.node_ports:RolePorts",
        OpeningTime.STARTED,
        lambda task: bool(task.ports),
        frame=frames.PORTS_ASK,
    ),
    ServiceDoor(
        ".binding.node_report:AffinityReport",
        OpeningTime.EACH_START,
        lambda task: task.binding.report,
    ),
)
"""The services of a run, in the order in which they learn of events. If several know the cause of a
worker's end, the first one counts."""

QUESTIONS = {
    "usage": ("..control.job_messages:USAGE", ".jobs.node_usage:UsageAnswers"),
    "end_job": ("..control.job_messages:END_JOB", ".jobs.node_job_end:JobEndAnswers"),
    "stacks": (".stacks.messages:STACKS", ".stacks.node_questions:StackAnswers"),
}
"""Questions that the runner may ask, by name: the row of a question, and its answers, which are a
subclass of `NodeAnswers`, or a function of the `QuestionContext` and the ask that returns one."""


@contextmanager
def outfitted(
    specs: Sequence[WorkerSpec], starting: StartingWorkers, outfits: Sequence[NodeDoor] = OUTFITS
) -> Iterator[Sequence[WorkerSpec]]:
    """Return a context of the specs of workers with every outfit that their job has.

    Raises:
        OSError: there are too few descriptors, or there is too little memory.
        ValueError: the function for the workers is damaged.
    """
    with ExitStack() as stack:
        for door in outfits:
            if door.applies(starting.task):
                specs = stack.enter_context(load(door.name)(specs, starting))
        yield specs
