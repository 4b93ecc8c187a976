"""The JSON types of `dsrun-check --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ...control.facts import Facts
from ..quick_check.runner_findings import Finding
from .runner_json_types import MeasuredValues
from .runner_steps import MeasuredFault


class CheckedNodeJson(TypedDict):
    """One node.

    Attributes:
        node: the name of the host, as listed.
        state: the result: ok, not reached, no answer, or the number of errors or warnings.
        error: the reason for no answer; None with an answer.
        hostname: the host name that the node itself has.
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
