"""The host half: a program that checks a container's host, and becomes the client of its runtime.

The backend starts it in place of the node launcher. No process remains: the client takes its place,
and the standard streams, which are the control line.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from typing import NoReturn

from ...backends.base import BOOT, package_root
from ...backends.causes import ENTERING
from ...common import executable, system
from ...common.errors import NodeError, UsageError, reason
from ...common.private_folder import cache_root, private_folder
from ...node.engine_task import task_identity
from ...node.machine.processes import adopt_orphans, die_with_parent
from ...specs.container import ContainerSpec, Mount, unpacked
from ...specs.environment import CACHE, IDENTITY, NOTE
from . import node_images, node_records, runtimes
from .runtimes import HostView, Inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CDI = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
"""Folders of CDI specifications (CDI 0.6, and podman-run(1))."""


OF_ENGINES = ("--engine=", "--rank=")
"""Arguments of an engine's tasks. The engine ends them; their parents may have threads."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Check the container of the first argument; run a node launcher in it with the others.

    Raises:
        UsageError: the first argument is damaged.
        NodeError: the container cannot be started here; the message has the reason.
    """
    try:
        spec = unpacked(arguments[0])
    except ValueError as error:
        raise UsageError(f"container: {error}") from None
    environ, line = dict(os.environ), [_with_identity(word) for word in arguments[1:]]
    if not any(word.startswith(OF_ENGINES) for word in arguments):
        # A client whose container has lost its monitor would wait for ever. The end of a client
        # closes the control line, and the node launcher inside stops its workers.
        # Over a lane, the node launcher outside must not take the client's processes for its own.
        die_with_parent(signal.SIGKILL)
        adopt_orphans()
    tool = node_images.tool(spec)
    if spec.copies:
        spec, environ = _with_cache(spec, environ)
    spec = spec._replace(mounts=tuple(_mounts(spec)))
    keeps = spec.runtime in node_records.KEEPING
    cidfile = node_records.opened(tool, spec.job) if keeps else ""
    found = node_images.resolved(spec, tool)
    environ[IDENTITY] = f"{spec.runtime} {found.identity}"
    inside = Inside(
        tuple(_launcher(spec, line)),
        stdio="--stdio" in line,
        image=found.image,
        cidfile=cidfile,
    )
    view = _view((*runtimes.passed_on(environ), IDENTITY, *([CACHE] if spec.copies else [])))
    _check_devices(spec, view)
    if text := _note(view):
        environ[NOTE] = text
        view = view._replace(variables=(*view.variables, NOTE))
    if spec.runtime == "exec":
        argv = runtimes.attach(spec._replace(runtime=os.path.basename(tool)), view, inside)
    else:
        argv = runtimes.client(spec, view, inside)
    sys.stderr.write(f"{ENTERING}{spec.shown}\n")
    sys.stderr.flush()
    _become(tool, argv, {**environ, **_prefixed(spec, view, environ)})


def _become(tool: str, argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the client, with the signals of a fresh login."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    path = tool or executable.located(argv[0])
    try:
        os.execve(path, list(argv), environ)
    except OSError as error:
        raise NodeError(f"--container: cannot run {path}: {reason(error)}") from None


def _launcher(spec: ContainerSpec, line: Sequence[str]) -> list[str]:
    """Return the command of the node launcher inside.

    dsrun's folder is mounted if the runtime can mount one. Otherwise, as in a container that
    already runs, dsrun comes over the control line again.
    """
    root = _root()
    if not runtimes.RUNTIMES[spec.runtime].mounts:
        from ...backends.package.command import node_command
        from ...backends.package.contents import digest

        return [*node_command(spec.python, root, digest(root)), *line]
    return [spec.python, "-E", "-S", "-c", BOOT, root, *line]


def _with_identity(word: str) -> str:
    """Return an argument with the task that the engine's variables name, which stay outside."""
    if not word.startswith(OF_ENGINES):
        return word
    engine = word.partition("=")[2]
    return f"--node={task_identity(engine, os.environ, system.uname().nodename)}"


def _with_cache(
    spec: ContainerSpec, environ: dict[str, str]
) -> tuple[ContainerSpec, dict[str, str]]:
    """Return the container with the folder in which `--sync` keeps copies."""
    try:
        folder = private_folder(cache_root(environ), "dsrun")
    except OSError as error:
        raise NodeError(f"--sync: {error.filename}: {reason(error)}") from None
    mount = Mount(folder, folder)
    return spec._replace(mounts=(*spec.mounts, mount)), {**environ, CACHE: os.path.dirname(folder)}


def _mounts(spec: ContainerSpec) -> list[Mount]:
    """Return the mounts that exist here, with dsrun's own folder; first make those marked `made`.

    Raises:
        NodeError: one that the user names does not exist, or a folder cannot be made.
    """
    found = []
    for mount in spec.mounts:
        if mount.made:
            try:
                os.makedirs(mount.source, exist_ok=True)
            except OSError as error:
                raise NodeError(f"{mount.source}: {reason(error)}") from None
        if os.path.exists(mount.source):
            found.append(mount)
        elif mount.given:
            raise NodeError(f"--mount {mount.source}: no such file or folder on this host")
    own = [Mount(path, path, read_only=True) for path in _own_folders()]
    return [*found, *own] if runtimes.RUNTIMES[spec.runtime].mounts else found


def _own_folders() -> list[str]:
    """Return the folders of dsrun's code that a node launcher needs."""
    return [os.path.join(_root(), name) for name in ("launcher", "accelerator")]


def _root() -> str:
    """Return the folder that holds the `launcher` package, without links on the way."""
    return os.path.dirname(os.path.realpath(os.path.join(package_root(), "launcher")))


def _check_devices(spec: ContainerSpec, view: HostView) -> None:
    """Refuse a container without the host's NVIDIA devices."""
    given = any("nvidia" in word or word.startswith("--device") for word in spec.args)
    if spec.runtime == "podman" and view.nvidia and not view.cdi and not given:
        raise NodeError(
            "--container podman: no CDI specification of the NVIDIA devices in /etc/cdi; make it"
            " once: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        )


def _note(view: HostView) -> str:
    """Return the note that a node makes in a container whose devices may lack memory, or ""."""
    memlock = {name: hard for name, _, hard in view.limits}.get("memlock", runtimes.UNLIMITED)
    if runtimes.RDMA not in view.devices or memlock == runtimes.UNLIMITED:
        return ""
    return (
        f"RDMA devices may fail in this container: at most {memlock} bytes of memory can be locked;"
        " raise memlock on this host (limits.conf(5), or LimitMEMLOCK of its sshd)"
    )


def _prefixed(spec: ContainerSpec, view: HostView, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables for a container of apptainer, which reads them under another name.

    Source: "Environment and Metadata" in the user guides of apptainer and of singularity 3.
    """
    if spec.runtime != "apptainer":
        return {}
    prefixes = ("APPTAINERENV_", "SINGULARITYENV_")
    return {f"{one}{name}": environ[name] for one in prefixes for name in view.variables}


def _view(variables: Sequence[str]) -> HostView:
    from glob import glob

    devices = [path for pattern in runtimes.DEVICES for path in sorted(glob(pattern))]
    uid, gid = os.geteuid(), os.getegid()
    return HostView(
        uid,
        gid,
        groups=tuple(one for one in os.getgroups() if one != gid),
        limits=tuple(_limits()),
        raises=_raises_limits(),
        devices=tuple(dict.fromkeys(devices)),
        device_groups=_groups(devices) if uid else (),
        nvidia=bool(glob(runtimes.NVIDIA)),
        cdi=any(glob(f"{folder}/*nvidia*") for folder in CDI),
        variables=tuple(variables),
    )


def _groups(devices: Sequence[str]) -> tuple[int, ...]:
    """Return the groups that own device files, other than root's."""
    owners = {os.stat(path).st_gid for path in devices if stat.S_ISCHR(os.stat(path).st_mode)}
    return tuple(sorted(owners - {0}))


def _raises_limits() -> bool:
    """Return whether this process has CAP_SYS_RESOURCE (proc(5), CapEff)."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        caps = next((line.split()[1] for line in file if line.startswith("CapEff:")), "0")
    return bool(int(caps, 16) >> 24 & 1)


def _limits() -> list[tuple[str, int, int]]:
    """Return the limits that clients can set, as (name, soft, hard)."""
    import resource

    names = ("core", "memlock", "nofile", "nproc", "stack")
    made = []
    for name in names:
        pair = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        soft, hard = (-1 if one == resource.RLIM_INFINITY else one for one in pair)
        made.append((name, soft, hard))
    return made
