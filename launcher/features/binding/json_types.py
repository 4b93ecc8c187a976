"""The JSON types of `dsrun-topo --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from .command_tree import TreeNode
from .node_topology import Core


class MemoryJson(TypedDict):
    """The memory of one NUMA node.

    Attributes:
        node: the NUMA node.
        bytes: its size in bytes.
    """

    node: int
    bytes: int


class WorkerJson(TypedDict):
    """One worker.

    Attributes:
        rank: its local rank.
        device: its device, as in the variable that masks devices, or "".
        address: PCI address of the device; "" if unknown.
        node: NUMA node of the device; None if unknown.
        cpus: the cpus that it may run on, such as 0-3,8; "" if it is not bound.
        memory: policy and NUMA nodes of its memory, such as bind:0, or "".
        nic: the network card that is nearest to its device; "" if unknown.
    """

    rank: int
    device: str
    address: str
    node: int | None
    cpus: str
    memory: str
    nic: str


class Topo(TypedDict):
    """This machine, and the bindings that workers would have on it.

    Attributes:
        host: its hostname.
        cores: the physical cores that may be used, ascending by first cpu.
        memory: the NUMA nodes that have memory.
        hidden: number of cpus that are online and may not be used here.
        accelerator: kind of the devices, such as cuda or cpu.
        devices: the visible devices.
        nics: the network cards.
        bind_to: the kind of binding, as for --bind_to.
        workers: the binding that each worker would have.
        notes: warnings about the binding.
    """

    host: str
    cores: Sequence[Core]
    memory: list[MemoryJson]
    hidden: int
    accelerator: str
    devices: Sequence[TreeNode]
    nics: Sequence[TreeNode]
    bind_to: str
    workers: list[WorkerJson]
    notes: Sequence[str]
