"""Collects the facts by which nodes are compared, in a few milliseconds."""

from __future__ import annotations

import os

from ...common import system
from ...control.facts import MOST_FILES, DeviceFacts, Facts
from ...node.machine import capacity
from ...specs.environment import IDENTITY, text_from_wire, to_wire
from . import node_code as code
from . import node_interpreter as interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...node.workers.prepare import NodeSetup
    from .node_devices import DeviceFactsQuestion

DRIVER = "/dev/nvidiactl"
"""Without this file NVIDIA's driver cannot be asked."""


def collect(setup: NodeSetup, at: Callable[[str], object] = str) -> Facts:
    """Return the facts of this node for a task whose checks have found no problem.

    A node that is not compared with others leaves out what only differs between nodes: files,
    variables, networks. `at` is called with each path before it is touched.
    """
    environ = environ_of(setup)
    at(os.fsdecode(setup.python))
    python = interpreter.interpreter(os.fsdecode(setup.python), environ)
    question = _ask(setup, python.folders)
    workdir = os.fsdecode(setup.workdir)
    versions = interpreter.versions(python, environ)
    if image := os.environ.get(IDENTITY):
        versions["image"] = image
    log_dir = setup.folder.path if setup.folder else ""
    spaces = capacity.spaces(workdir, log_dir, environ, at)
    script = _script(setup, workdir)
    facts = Facts(
        wall=system.time(),
        python=python.version,
        python_path=to_wire(python.path),
        versions={name: to_wire(one) for name, one in versions.items()},
        limits=capacity.limits(),
        memory=capacity.memory(),
        cgroup_memory=capacity.cgroup_memory(),
        cpus=capacity.cpus(),
        spaces=tuple(one._replace(path=to_wire(one.path)) for one in spaces),
        imports_torch=not setup.program.no_python and code.imports_torch(script),
    )
    if setup.task.reach:
        facts = _with_compared(facts, setup, script, environ, at)
    if question is not None:  # its child has had time to answer
        facts = _with_devices(facts, question)
    return facts


def _with_compared(
    facts: Facts,
    setup: NodeSetup,
    script: bytes | None,
    environ: Mapping[str, str],
    at: Callable[[str], object],
) -> Facts:
    """Add what only differs between nodes."""
    workdir = os.fsdecode(setup.workdir)
    at(workdir)
    files = code.python_files(workdir)
    modules, absent = _modules(setup, script, environ, at)
    return facts._replace(
        script=code.digest(script),
        files=code.files_digest(files),
        file_count=MOST_FILES + 1 if files is None else len(files),
        env=_that_matter(environ),
        mtus=capacity.mtus(),
        modules={name: to_wire(folder) for name, folder in modules.items()},
        absent=tuple(map(to_wire, absent)),
    )


def _with_devices(facts: Facts, question: DeviceFactsQuestion) -> Facts:
    """Add the devices, and the version of CUDA that their driver supports."""
    *rows, cuda = question.answer() or [{}]
    return facts._replace(
        devices=tuple(DeviceFacts(*row) for row in rows),
        versions=facts.versions | {name: to_wire(one) for name, one in cuda.items()},
    )


def _modules(
    setup: NodeSetup,
    script: bytes | None,
    environ: Mapping[str, str],
    at: Callable[[str], object],
) -> tuple[dict[str, str], list[str]]:
    """Return the folders of the user's own modules, and the missing folders of PYTHONPATH."""
    if setup.program.no_python or script is None:
        return {}, []
    workdir = os.fsdecode(setup.workdir)
    named = [os.path.join(workdir, one) for one in environ.get("PYTHONPATH", "").split(":") if one]
    own = os.path.dirname(os.path.join(workdir, text_from_wire(setup.program.script)))
    for folder in named:
        at(folder)
    absent = [one for one in named if not system.exists(one)]
    return code.places(code.imported(script), [own, *named]), absent


def _that_matter(environ: Mapping[str, str]) -> dict[str, str]:
    from . import node_variables as variables

    return {name: to_wire(one) for name, one in variables.that_matter(environ).items()}


def environ_of(setup: NodeSetup) -> dict[str, str]:
    """Return the variables that all workers share."""
    wired = {**setup.base, **setup.task.env}
    return {text_from_wire(name): text_from_wire(value) for name, value in wired.items()}


def _script(setup: NodeSetup, workdir: str) -> bytes | None:
    """Return the content of the script; a module, or a function that was sent, has none."""
    if setup.program.module or setup.task.payload:
        return None
    return code.content(os.path.join(workdir, text_from_wire(setup.program.script)))


def _ask(setup: NodeSetup, folders: tuple[str, ...]) -> DeviceFactsQuestion | None:
    """Ask NVIDIA's driver, if any, in a child."""
    if setup.devices.kind != "cuda" or not system.exists(DRIVER):
        return None
    from . import node_devices as devices

    visible = setup.devices.visible
    addresses = dict.fromkeys(visible, "") | setup.devices.addresses(visible)
    try:
        return devices.DeviceFactsQuestion(lambda: devices.read(addresses, folders))
    except OSError:
        return None
