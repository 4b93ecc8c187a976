"""The JSON types of `dsrun-check --json`, and of what its steps measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias, TypedDict

from ...common.json_types import one_of
from ...control.facts import Facts
from ..quick_check.runner_findings import Finding
from .runner_device_tests import TESTS
from .runner_steps import MeasuredFault


class CheckedNodeJson(TypedDict):
    """One node.

    Attributes:
        node: the name of the host, as listed.
        state: the result: ok, not reached, no answer, or the number of errors or warnings.
        error: the reason for no answer; None with an answer.
        hostname: the node's own host name.
        python: the path of the workers' Python there; None if unknown, or if they run on none.
        accelerator: the kind of its devices, cpu for none.
        devices: the devices that a worker can see.
        slots: the number of workers it would have.
        facts: the facts by which nodes are compared; None for a node that cannot run the job.
        report: with --report: more about the machine, torch and DeepSpeed, by name.
    """

    node: str
    state: str
    error: str | None
    hostname: str | None
    python: str | None
    accelerator: str | None
    devices: list[str]
    slots: int | None
    facts: Facts | None
    report: dict[str, str]


class StepJson(TypedDict):
    """One step of the full check.

    Attributes:
        step: the measured subject: network, devices, collectives.
        faults: the faults, the worst first.
        measured: all values, by step.
        notes: values that could not be measured, and why.
    """

    step: str
    faults: Sequence[MeasuredFault]
    measured: MeasuredValues
    notes: Sequence[str]


class CheckJson(TypedDict):
    """The facts about nodes, and the findings.

    Attributes:
        exit_code: 69 if there is an error (with --strict also if there is a warning) or a fault of
            the full check, else 0.
        errors: every error in words, with what to do, in the order in which they can be mended.
        warnings: every warning in words, with what to do.
        first_job: the command of a job on these nodes, as words; train.py stands for a script that
            was not named.
        nodes: the nodes that were asked, then those that are missing.
        problems: why nodes cannot run a job together, one line each. Each is an error.
        findings: the findings of the quick check, errors first.
        python: the origin of the workers' Python: --python, --venv_script, VIRTUAL_ENV,
            CONDA_PREFIX, .venv, or dsrun for the one that dsrun runs on.
        full: the result of each step of --full; None without --full.
    """

    exit_code: int
    errors: list[str]
    warnings: list[str]
    first_job: Sequence[str]
    nodes: list[CheckedNodeJson]
    problems: Sequence[str]
    findings: Sequence[Finding]
    python: str
    full: list[StepJson] | None


class FailedLink(TypedDict):
    """A link that could not be measured.

    Attributes:
        nodes: the calling node, and the other node.
        failed: the reason why it could not be measured.
    """

    nodes: list[str]
    failed: str


class MeasuredLink(TypedDict):
    """A link that was measured.

    Attributes:
        nodes: the calling node, and the other node.
        address: the address of the other node.
        best_s: the shortest round trip in seconds.
        median_s: the median of the round trips in seconds.
        out: the fastest stream to the other node, in bytes per second.
        out_free: bytes per second to the other node without the time in which an end had no core to
            run on.
        back: the fastest stream from it, in bytes per second.
        back_free: `out_free` in the other direction, in bytes per second.
        sent: segments that the node has sent, with those sent again.
        resent: segments that it has sent again.
        back_sent: segments that the other node has sent, with those sent again.
        back_resent: segments that the other node has sent again.
    """

    nodes: list[str]
    address: str
    best_s: float
    median_s: float
    out: float
    out_free: float
    back: float
    back_free: float
    sent: int
    resent: int
    back_sent: int
    back_resent: int


LinkRow: TypeAlias = MeasuredLink | FailedLink


class NetworkJson(TypedDict):
    """The measurements of the step `network`.

    Attributes:
        links: all links that were measured.
        links_alone: those that were measured again.
    """

    links: list[LinkRow]
    links_alone: list[LinkRow]


class Value(TypedDict):
    """The result of one test of a node.

    Attributes:
        node: the node.
        test: the test.
        part: the measured part: cores, work, temp, or a device.
        value: the result, in its unit: the higher, the better.
        unit: the unit of the value.
    """

    node: str
    test: str
    part: str
    value: float
    unit: Annotated[str, one_of(sorted({one.unit for one in TESTS.values()}))]


class DevicesJson(TypedDict):
    """The measurements of the step `devices`.

    Attributes:
        values: the values measured on nodes, as docs/full_check.md describes them.
    """

    values: list[Value]


class AllReduce(TypedDict):
    """All-reduces of some nodes.

    Attributes:
        nodes: the nodes of the group.
        latency_s: the shortest small all-reduce in seconds.
        bandwidth_bytes_per_s: the fastest large all-reduce, in bytes per second.
        wrong: the number of wrong elements of the sum.
    """

    nodes: list[str]
    latency_s: float
    bandwidth_bytes_per_s: float
    wrong: int


class Collectives(TypedDict):
    """The measurements of the step `collectives`.

    Attributes:
        backend: the backend of torch: gloo or nccl; "" without torch.
        all: all nodes together.
        pairs: pairs of nodes.
    """

    backend: str
    all: list[AllReduce]
    pairs: list[AllReduce]


MeasuredValues: TypeAlias = NetworkJson | DevicesJson | Collectives
