"""The container of a job, from `--container`, `--mount` and `--container_args`."""

from __future__ import annotations

import os
import shlex
import sys

from ...backends import BACKENDS
from ...common.errors import UsageError
from ...common.shell_words import shell_words
from ...planning.folders import from_here
from ...resources import source
from ...specs.container import ContainerSpec, Mount
from .runtimes import RUNTIMES, HostView, Inside, client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...cli.options import Options
    from ...specs.job import JobSpec

NONE = "none"
"""The value of --container for no container, such as for one role of a job with containers."""

OF_THE_IMAGE = ("LD_LIBRARY_PATH",)
"""Variables that travel to hosts, but not into images, which have their own."""

SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin"),
    *("/sys", "/usr"),
)
"""Folders of the system, which each image brings itself: no part of them is mounted unasked."""

WHOLE = ("/", "/run", "/var")
"""Folders that are not mounted unasked, but those in them are."""

ALREADY_THERE = ("/dev/shm",)
"""Folders that a container shares with its host in any case."""


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose node launchers run in containers.

    Raises:
        UsageError: an option is invalid, or conflicts with the rest of the job.
    """
    if options.container == NONE or not (
        options.container or options.mount or options.container_args
    ):
        return spec
    if not options.container:
        name = "mount" if options.mount else "container_args"
        raise UsageError(f"--{name}: only with --container")
    container = container_spec(options, spec)
    _check_backend(container, spec)
    kept = _named(options)
    values = {
        name: value
        for name, value in spec.travel.values.items()
        if name not in OF_THE_IMAGE or name in kept
    }
    supervision = spec.supervision
    if options.start_timeout is None:  # an image may have to be pulled
        supervision = supervision._replace(sign_timeout=supervision.start_timeout)
    notes = (*spec.origin.notes, *_notes(container, spec))
    return spec._replace(
        backend=spec.backend._replace(
            python=container.python if container.by_engine else sys.executable,
            container=container,
        ),
        travel=spec.travel._replace(values=values),
        supervision=supervision,
        origin=spec.origin._replace(notes=notes),
    )


def container_spec(options: Options, spec: JobSpec) -> ContainerSpec:
    """Return the container of a job.

    Raises:
        UsageError: an option is invalid.
    """
    runtime, colon, image = options.container.partition(":")
    known = RUNTIMES.get(runtime)
    if known is None or not colon or not image.strip() or image.startswith("-"):
        raise UsageError(f"--container {options.container!r}: {_expected(runtime, image)}")
    if runtime in {"apptainer", "enroot"} and "://" not in image:
        image = from_here(image)
    if options.mount and not known.mounts:
        what = "a running container" if runtime == "exec" else "a prefix"
        raise UsageError(f"--mount: nothing can be mounted in {what} ({options.container})")
    if runtime == "prefix":
        shell_words("--container", image)
    mounts = [_mount(text) for text in options.mount]
    _check_targets(mounts)
    if known.mounts:
        mounts += _of_the_job(spec, [mount.target for mount in mounts])
    for mount in mounts:
        _check_separators(mount, runtime, known.separators)
    hosts = {node.host.name for node in spec.plan.nodes}
    return ContainerSpec(
        runtime,
        image,
        spec.plan.program.python or "python3",
        tuple(mounts),
        shell_words("--container_args", options.container_args),
        spec.job_id,
        several=len(hosts) > 1 or spec.elastic is not None,
        copies=spec.sync is not None and known.mounts,
    )


def rows(container: ContainerSpec) -> list[tuple[str, str]]:
    """Return the rows of a dry run: the container, its mounts, and its client's command."""
    mounts = ", ".join(
        f"{one.source}{f' at {one.target}' if one.target != one.source else ''}"
        f"{' (read-only)' if one.read_only else ''}"
        for one in container.mounts
    )
    made = [("container", f"{container.shown}{f'; with {mounts}' if mounts else ''}")]
    if RUNTIMES[container.runtime].command is None:
        return made  # srun's command has it
    inside = Inside((container.python, "..."), cidfile="FILE")
    command = client(container, HostView(os.geteuid(), os.getegid()), inside)
    what = "with each node's devices and limits"
    return [*made, ("client", f"{shlex.join(command)} ({what})")]


def _expected(runtime: str, image: str) -> str:
    forms = ", ".join(f"{name}:{one.image}" for name, one in RUNTIMES.items())
    words = f"expected one of {forms}"
    if runtime and runtime not in RUNTIMES:
        import difflib

        near = difflib.get_close_matches(runtime, RUNTIMES, 1)
        whole = f"{runtime}:{image}" if image else runtime
        meant = f"{near[0]}:{image}" if near and image else f"podman:{whole} or docker:{whole}"
        return f"{words}; write --container {meant}"
    return words


def _mount(text: str) -> Mount:
    """Return a mount of the form A[:B][:ro].

    Raises:
        UsageError: it has another form.
    """
    *parts, last = text.split(":")
    mode = last if parts and last in {"ro", "rw"} else ""
    parts = parts if mode else [*parts, last]
    if not 1 <= len(parts) <= 2 or not all(parts) or "\0" in text:
        raise UsageError(f"--mount {text!r}: expected A[:B][:ro], such as /data or /data:/mnt:ro")
    origin = os.path.normpath(from_here(parts[0]))
    target = parts[1] if len(parts) == 2 else origin
    if not os.path.isabs(target):
        raise UsageError(f"--mount {text}: {target}: the path inside must be absolute")
    target = os.path.normpath(target)
    if target == "/":
        raise UsageError(f"--mount {text}: / inside is the image itself; name another path")
    return Mount(origin, target, read_only=mode == "ro", given=True)


def _check_targets(mounts: list[Mount]) -> None:
    seen: dict[str, str] = {}
    for mount in mounts:
        if mount.target in seen:
            raise UsageError(
                f"--mount: {seen[mount.target]} and {mount.source} cannot both be at {mount.target}"
            )
        seen[mount.target] = mount.source


def _of_the_job(spec: JobSpec, taken: list[str]) -> Iterator[Mount]:
    """Yield the folders of the job: of workers, script, logs and `--sync`."""
    program, output = spec.plan.program, spec.output
    wanted = [Mount(spec.workdir, spec.workdir)]
    if not program.module and ("/" in program.script or not program.no_python):
        script = os.path.join(spec.workdir, program.script)
        folder = os.path.normpath(os.path.dirname(script))
        wanted.append(Mount(folder, folder))
    if spec.workers.venv_script:
        folder = os.path.dirname(os.path.join(spec.workdir, spec.workers.venv_script))
        wanted.append(Mount(os.path.dirname(folder), os.path.dirname(folder)))
    if output.log_dir:
        folder = os.path.normpath(os.path.join(spec.workdir, output.log_dir))
        wanted.append(Mount(folder, folder, made=True))
    if spec.sync is not None:
        wanted.append(Mount(spec.sync.source, spec.sync.source))
    for mount in wanted:
        if mount.source in (*taken, *ALREADY_THERE) or _is_the_images(mount.source):
            continue
        taken.append(mount.source)
        yield mount


def _is_the_images(path: str) -> bool:
    """Return whether a path belongs to the system, which the image brings itself."""
    return path in WHOLE or any(_within(path, folder) for folder in SYSTEM)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _check_separators(mount: Mount, runtime: str, separators: str) -> None:
    for path in (mount.source, mount.target):
        for one in separators:
            if one in path:
                raise UsageError(
                    f"--container {runtime}: {path!r} has a {one!r}, which the mounts of {runtime}"
                    " cannot have; use a link without it"
                )


def _check_backend(container: ContainerSpec, spec: JobSpec) -> None:
    """Check that the backend can start containers of this runtime.

    Raises:
        UsageError: it cannot.
    """
    launcher, name = spec.plan.launcher, f"--container {container.shown}"
    if BACKENDS[launcher].joins:
        raise UsageError(f"{name}: not with --no_ssh; start dsrun inside the container instead")
    if container.by_engine and launcher != "slurm":
        raise UsageError(f"{name}: pyxis is a plugin of Slurm; use --launcher slurm, or podman")
    if spec.backend.rank_per_task and not container.by_engine:
        raise UsageError(
            f"{name}: not with --rank_per_task, as MPI in the container cannot reach the engine;"
            " start dsrun's nodes without it, or MPI inside one container per node"
        )
    if spec.plan.rendezvous is not None and spec.plan.rendezvous.most != 1:
        raise UsageError(
            f"{name}: not with --rdzv_backend {spec.plan.rendezvous.backend}, where each node runs"
            " this command; start dsrun inside the container instead"
        )


def _named(options: Options) -> set[str]:
    return {one.partition("=")[0] for one in options.export}


def _notes(container: ContainerSpec, spec: JobSpec) -> Iterator[str]:
    placed = any(word.startswith("--cgroup-parent") for word in container.args)
    if container.runtime == "docker" and "SLURM_JOB_ID" in os.environ and not placed:
        yield (
            "docker's containers are outside of the Slurm job's cgroup, so Slurm's limits do not"
            " hold for them; --container_args --cgroup-parent=... puts them in one"
        )
    here = any(source.is_here(node.host) for node in spec.plan.nodes)
    folder = spec.workdir
    if here and _is_the_images(folder) and RUNTIMES[container.runtime].mounts:
        yield f"the workers' folder {folder} is the image's own, not this machine's"
