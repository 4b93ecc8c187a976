"""This machine's topology, and the binding that its workers would get."""

from __future__ import annotations

import os

from ....accelerator import vendors
from ...common.cpu_list import format_cpus
from ...common.errors import UsageError
from ...common.formats import versioned
from ...common.records import NamedTuple
from ...common.wording import counted
from ...node.machine.devices import NodeDevices
from ...node.workers.devices import WorkerDevices
from . import node_conflicts as conflicts
from . import node_numa as numa
from . import node_plan as binding
from . import node_sysfs as sysfs
from . import node_topology as topology
from . import runner_report as bindings
from .command_tree import Machine, TreeNode, draw
from .node_observed_affinity import placed
from .plan import binding_policy, core_lists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....accelerator.hardware.nics import Nic
    from ...cli.options import Options
    from ...control.messages import NodeBindings, WorkerBinding
    from ...specs.policies import BindingPolicy
    from .json_types import Topo, WorkerJson
    from .node_plan import BindingPlan


class TopologySurvey(NamedTuple):
    """The data that dsrun-topo shows.

    Attributes:
        bound: the binding that each worker would have.
        notes: warnings about these bindings.
    """

    machine: Machine
    bind_to: str
    bound: NodeBindings
    notes: tuple[str, ...]


def survey(options: Options) -> TopologySurvey:
    """Return this machine, and the bindings that its workers would get.

    Raises:
        UsageError: there is no such accelerator, or the binding is not possible.
    """
    tree = topology.read_topology(allowed=os.sched_getaffinity(0))
    try:
        devices = NodeDevices(os.environ, vendors.named(options.accelerator, "--accelerator"))
        workers = devices.count() if options.num_gpus is None else options.num_gpus
        if workers < 1:
            raise ValueError(f"--num_gpus: expected 1 or more, not {workers}")
        policy = _policy(options)
        owned = WorkerDevices(devices, tuple(range(workers)), policy)
    except ValueError as error:
        raise UsageError(str(error)) from None
    plan = binding.plan(tree, owned.numa_nodes, policy, devices=owned.devices)
    notes = tuple(note for note in (*plan.notes, conflicts.conflicts(os.environ)) if note)
    return TopologySurvey(_machine(devices, tree), policy.bind_to, _bound(owned, plan), notes)


def as_text(found: TopologySurvey) -> str:
    """Return the machine as a tree, and a table of the bindings."""
    title = f"{counted(len(found.bound.workers), 'worker')}, bound by '{found.bind_to}':"
    table = bindings.table([(found.machine.name, found.bound)], title)
    return "\n".join([draw(found.machine), "", table, *(f"  {note}" for note in found.notes)])


def as_json(found: TopologySurvey) -> str:
    """Return the survey as one JSON object, as docs/schemas/topo.schema.json describes it."""
    import json

    machine = found.machine
    fields: Topo = {
        "host": machine.name,
        "cores": machine.topology.cores,
        "memory": [{"node": node, "bytes": kib << 10} for node, kib in machine.memory.items()],
        "hidden": machine.hidden,
        "accelerator": found.bound.accelerator,
        "devices": machine.devices,
        "nics": machine.nics,
        "bind_to": found.bind_to,
        "workers": [_worker(one) for one in found.bound.workers],
        "notes": found.notes,
    }
    return json.dumps(versioned("topo", fields))


def _worker(one: WorkerBinding) -> WorkerJson:
    return {
        "rank": one.rank,
        "device": one.device,
        "address": one.address,
        "node": one.node,
        "cpus": one.cpus,
        "memory": one.memory,
        "nic": one.nic,
    }


def _policy(options: Options) -> BindingPolicy:
    host = os.uname().nodename
    other = options.bind_to or options.numa_binding
    policy = binding_policy(
        options.changed(bind_cores_to_rank=options.bind_cores_to_rank or not other)
    )
    core_list, by_host = core_lists(options.bind_core_list, [host])
    return policy._replace(core_list=dict(by_host).get(host, core_list), report=True)


def _machine(devices: NodeDevices, tree: topology.Topology) -> Machine:
    from ....accelerator.hardware import nics

    return Machine(
        name=os.uname().nodename,
        topology=tree,
        memory=numa.memory("/sys"),
        hidden=len(
            sysfs.numbers("/sys/devices/system/cpu/present")
            - sysfs.numbers("/sys/devices/system/cpu/offline")
            - {cpu for core in tree.cores for cpu in core.cpus}
        ),
        title=devices.title if devices.visible else "",
        devices=list(_things(devices)),
        nics=[TreeNode(_nic(nic), nic.node) for nic in nics.read()],
    )


def _things(devices: NodeDevices) -> Iterator[TreeNode]:
    """Yield the devices, with their driver's facts."""
    from ....accelerator.hardware import nvml

    addresses, nodes = devices.addresses(devices.visible), devices.nodes_of(devices.visible)
    read = nvml.read() if addresses else ()
    gpus = {gpu.address: gpu for gpu in read or (nvml.from_proc() if addresses else ())}
    if gpus and not read and not nvml.is_installed():
        from ...common.entry import note
        from ...common.packages import lacks

        note([lacks("nvidia-ml-py", "reports GPU faults")])
    for entry in devices.visible:
        address = addresses.get(entry, "")
        gpu = gpus.get(address) if address else None
        reported = [gpu.name or "", *nvml.problems(gpu)] if gpu else []
        words = [f"{devices.kind} {entry}", address, *reported]
        yield TreeNode(", ".join(word for word in words if word), nodes[entry])


def _nic(nic: Nic) -> str:
    ports = f"port {', '.join(map(str, nic.ports))} up" if nic.ports else "down"
    twins = nic.interfaces if nic.kind == "infiniband" else ()
    name = f"{nic.name} ({', '.join(twins)})" if twins else nic.name
    return ", ".join(word for word in (name, nic.link, nic.address, ports) if word)


def _bound(owned: WorkerDevices, plan: BindingPlan) -> NodeBindings:
    unbound = owned.bound(dict.fromkeys(range(len(owned.numa_nodes)), 0), 0)
    shares = [(format_cpus(one.cpus), _memory(one)) for one in plan.bindings]
    return unbound._replace(workers=placed(unbound.workers, shares)) if shares else unbound


def _memory(one: binding.WorkerShare) -> str:
    return f"{one.policy}:{format_cpus(one.memory)}" if one.policy else ""
