"""The command line of each runtime's client, from the container and facts about the host. Pure."""

from __future__ import annotations

import shlex

from ...common.records import NamedTuple
from ...specs.environment import is_mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...specs.container import ContainerSpec, Mount

LABEL = "dsrun.job"
"""The label of a container with the id of its job."""

DEVICES = (
    *("/dev/kfd", "/dev/dri", "/dev/accel", "/dev/accel[0-9]*", "/dev/infiniband"),
    *("/dev/neuron[0-9]*", "/dev/davinci*", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/cambricon*"),
    *("/dev/mtgpu*", "/dev/vfio", "/dev/gdrdrv"),
)
"""Patterns of files of accelerators and RDMA devices; NVIDIA's have separate options."""

NVIDIA = "/dev/nvidia[0-9]*"
"""A pattern of the files of NVIDIA's devices."""

RDMA = "/dev/infiniband"
"""The folder of RDMA devices, which lock memory."""

UNLIMITED = -1
"""No limit, as the clients of docker and podman write it."""

PODMANS = {"nproc": 32768, "nofile": 1048576}
"""Limits that podman 4 sets for itself, and cannot exceed again without CAP_SYS_RESOURCE."""

RAISED = ("memlock", "nofile", "nproc")
"""Limits whose soft value is raised to the hard one: device libraries need them."""


class HostView(NamedTuple):
    """Facts about a host that decide how a container is started there.

    Attributes:
        uid, gid: the user and group of the job.
        groups: further groups.
        limits: soft and hard limits by name, -1 for none.
        raises: whether this user can raise hard limits (CAP_SYS_RESOURCE).
        devices: files that match `DEVICES`.
        nvidia: whether there are NVIDIA devices.
        cdi: whether a CDI specification describes NVIDIA's devices.
        variables: names of the host half's variables that the node launcher gets.
    """

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    limits: tuple[tuple[str, int, int], ...] = ()
    raises: bool = False
    devices: tuple[str, ...] = ()
    device_groups: tuple[int, ...] = ()
    nvidia: bool = False
    cdi: bool = False
    variables: tuple[str, ...] = ()


class Inside(NamedTuple):
    """The node launcher to run in a container.

    Attributes:
        argv: the command of the node launcher.
        stdio: whether its standard input and output are the control line.
        image: the image, resolved to an id where the runtime has ids; else as given.
        cidfile: the file to which a client writes the id of its container.
    """

    argv: tuple[str, ...]
    stdio: bool = True
    image: str = ""
    cidfile: str = ""


def passed_on(environ: Iterable[str]) -> list[str]:
    """Return names of variables that a scheduler sets on a host, and that nodes need inside."""
    names = [name for name in environ if name.startswith(("SLURM_", "SLURMD_")) or is_mask(name)]
    return sorted(names)


def client(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    """Return the command line that starts a node launcher in the container."""
    command = RUNTIMES[spec.runtime].command
    assert command is not None
    return command(spec, view, inside)


def _engine(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    """Return the command line of podman or docker."""
    python, *rest = inside.argv
    image = inside.image or spec.image
    rootfs = is_rootfs(spec)
    return [
        *(spec.runtime, "run", "--rm"),
        *(["--interactive"] if inside.stdio else []),
        *(f"--cidfile={inside.cidfile}", f"--label={LABEL}={spec.job}"),
        # The log would have the control line; a label would need other files relabelled.
        *("--log-driver=none", "--security-opt=label=disable", "--pids-limit=-1"),
        *(["--network=host"] if not _names(spec.args, "--network", "--net") else []),
        *("--ipc=host", "--workdir=/"),
        *_limits(spec, view),
        *_user(spec, view),
        *_devices(spec, view),
        *(f"--env={name}" for name in view.variables),
        *(f"--mount={_as_csv(mount)}" for mount in spec.mounts),
        *spec.args,
        f"--entrypoint={python}",
        *(["--rootfs"] if rootfs else []),
        *(image, *rest),
    ]


def is_rootfs(spec: ContainerSpec) -> bool:
    """Return whether the image is a folder with a root file system, which podman can run."""
    return spec.runtime == "podman" and spec.image.startswith("/")


def _limits(spec: ContainerSpec, view: HostView) -> list[str]:
    given = [one.removeprefix("--ulimit=").partition("=")[0] for one in spec.args]
    lowered = PODMANS if spec.runtime == "podman" and not view.raises else {}
    made = []
    for name, soft, hard in view.limits:
        most = lowered.get(name, hard)
        highest = most if hard == UNLIMITED else min(hard, most)
        if name not in given:
            made.append(f"--ulimit={name}={highest if name in RAISED else soft}:{highest}")
    return made


def _user(spec: ContainerSpec, view: HostView) -> list[str]:
    """Return options that keep the owners of files as they are without a container."""
    user = f"--user={view.uid}:{view.gid}"
    if spec.runtime == "podman":
        return [*(["--userns=keep-id"] if view.uid else []), user]
    return [user, *(f"--group-add={one}" for one in view.groups)]


def _devices(spec: ContainerSpec, view: HostView) -> list[str]:
    nvidia = ["--gpus=all"] if spec.runtime == "docker" else ["--device=nvidia.com/gpu=all"]
    usable = spec.runtime == "docker" or view.cdi
    return [
        *(nvidia if view.nvidia and usable else []),
        *(f"--device={path}" for path in view.devices),
        *(f"--group-add={one}" for one in view.device_groups),
    ]


def _as_csv(mount: Mount) -> str:
    """Return the value of --mount: fields separated by commas, quoted as in CSV (RFC 4180)."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        fields.append("readonly")
    return ",".join(map(_csv_field, fields))


def _csv_field(text: str) -> str:
    special = any(one in text for one in ',"\n\r') or text != text.strip()
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if special else text


def attach(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    """Return the command line that runs a node launcher in a running container.

    `spec.runtime` is the runtime that has the container, and the image is the container's id.
    """
    tool = "podman" if spec.runtime == "exec" else spec.runtime
    return [
        *(tool, "exec"),
        *(["--interactive"] if inside.stdio else []),
        "--workdir=/",
        *([f"--user={view.uid}:{view.gid}"] if tool == "docker" else []),
        *(f"--env={name}" for name in view.variables),
        *spec.args,
        *(inside.image or spec.image, *inside.argv),
    ]


def _apptainer(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    """Return the command line of apptainer, whose variables travel in its own environment."""
    amd = "/dev/kfd" in view.devices
    return [
        *("apptainer", "exec", "--cleanenv", "--pwd=/"),
        *(["--nv"] if view.nvidia else []),
        *(["--rocm"] if amd else []),
        *(word for mount in spec.mounts for word in ("--mount", _apptainers(mount))),
        *spec.args,
        *(spec.image, *inside.argv),
    ]


def _apptainers(mount: Mount) -> str:
    return _as_csv(mount).replace("readonly", "ro") if mount.read_only else _as_csv(mount)


def _enroot(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    """Return the command line of enroot, whose mounts are rows of an fstab with colons."""
    return [
        *("enroot", "start"),
        *(word for mount in spec.mounts for word in ("--mount", _enroots(mount))),
        *(word for name in view.variables for word in ("--env", name)),
        *spec.args,
        *(spec.image, *inside.argv),
    ]


def _enroots(mount: Mount) -> str:
    mode = "ro" if mount.read_only else "rw"
    return f"{mount.source}:{mount.target}:none:x-create=auto,rbind,{mode}"


def _prefix(spec: ContainerSpec, view: HostView, inside: Inside) -> list[str]:
    return [*shlex.split(spec.image), *spec.args, *inside.argv]


def _names(words: Sequence[str], *options: str) -> bool:
    """Return whether words contain one of these options, with or without a value after `=`."""
    return any(word.partition("=")[0] in options for word in words)


OF_FSTAB = ":,\\ \t\n\r\v\f"
"""Characters that end a field, or change one, in the rows of an fstab that enroot makes."""

OF_A_SHELL = '"$`'
"""Characters that mean something in the shell script in which pyxis writes such rows."""


class Runtime(NamedTuple):
    """A way to run a container.

    Attributes:
        command: makes the command line of its client; None if the engine starts containers.
        image: the kind of image that it takes, in words.
        mounts: whether folders can be mounted.
        separators: characters that cannot be part of the path of a mount.
        has_images: whether images have ids, and can be pulled.
        tools: names of its client, the preferred one first.
    """

    command: Callable[[ContainerSpec, HostView, Inside], list[str]] | None
    image: str = "IMAGE"
    mounts: bool = True
    separators: str = ""
    has_images: bool = False
    tools: tuple[str, ...] = ()


RUNTIMES: Mapping[str, Runtime] = {
    "podman": Runtime(_engine, has_images=True, tools=("podman",)),
    "docker": Runtime(_engine, has_images=True, tools=("docker",)),
    "apptainer": Runtime(_apptainer, "FILE.sif", tools=("apptainer", "singularity")),
    "enroot": Runtime(_enroot, "FILE.sqsh", separators=OF_FSTAB, tools=("enroot",)),
    "pyxis": Runtime(None, separators=OF_FSTAB + OF_A_SHELL),
    "exec": Runtime(attach, "NAME", mounts=False, tools=("podman", "docker")),
    "prefix": Runtime(_prefix, "COMMAND", mounts=False),
}
"""The runtimes by the word before the colon of --container."""
