"""The container of a job, from the options."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.containers.plan import plan, rows
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.container import ContainerSpec, Mount
from dsrun.launcher.specs.environment import ForwardedEnv
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import OutputPolicy, WorkerPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.rendezvous import Rendezvous
from dsrun.launcher.specs.sync import SyncSpec


def job(
    folder: str = "/work", script: str = "t.py", launcher: str = "ssh", **more: object
) -> JobSpec:
    nodes = lay_out([Host("n1", (0,)), Host("n2", (0,))])
    spec = JobSpec("j1", Plan(nodes, Program(script), launcher, "n1", None), folder)
    return spec._replace(**more)  # type: ignore[arg-type]


def planned(container: str, spec: JobSpec | None = None, **options: object) -> ContainerSpec:
    made = plan(Options(container=container, **options), spec or job()).backend.container
    assert made is not None
    return made


def test_the_folders_of_the_job_are_mounted() -> None:
    assert planned("podman:img:1") == ContainerSpec(
        "podman", "img:1", mounts=(Mount("/work", "/work"),), job="j1", several=True
    )
    spec = job(
        script="sub/t.py",
        output=OutputPolicy(log_dir="/logs"),
        workers=WorkerPolicy(venv_script="/venv/bin/activate"),
        sync=SyncSpec("/src", 1, {}, ""),
    )
    made = planned("docker:img", spec)
    assert made.copies
    assert made.mounts == (
        *(Mount("/work", "/work"), Mount("/work/sub", "/work/sub"), Mount("/venv", "/venv")),
        *(Mount("/logs", "/logs", made=True), Mount("/src", "/src")),
    )


def test_the_system_is_the_images() -> None:
    for folder in ("/", "/usr/lib/x", "/etc", "/run", "/proc/1"):
        assert planned("podman:i", job(folder)).mounts == ()
    assert planned("podman:i", job("/run/user/5")).mounts == (Mount("/run/user/5", "/run/user/5"),)
    nopython = Program("ls", no_python=True)
    spec = job("/usr/x")
    assert (
        planned("podman:i", spec._replace(plan=spec.plan._replace(program=nopython))).mounts == ()
    )


def test_mounts_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    mounts = ("/data", "/a/../b:/mnt:ro", "here:/h:rw", "/work:/work:ro")
    found = planned("podman:i", mount=mounts).mounts
    assert found == (
        Mount("/data", "/data", given=True),
        Mount("/b", "/mnt", read_only=True, given=True),
        Mount(f"{tmp_path}/here", "/h", given=True),
        Mount("/work", "/work", read_only=True, given=True),
    )


def test_python_and_variables() -> None:
    spec = job(travel=ForwardedEnv({"LD_LIBRARY_PATH": "/lib", "NCCL_DEBUG": "INFO"}))
    made = plan(Options(container="podman:i"), spec)
    assert made.backend.python == sys.executable, "on the host"
    assert made.backend.container is not None
    assert made.backend.container.python == "python3"
    assert made.travel.values == {"NCCL_DEBUG": "INFO"}
    assert made.supervision.sign_timeout == made.supervision.start_timeout
    kept = plan(Options(container="podman:i", export=("LD_LIBRARY_PATH",)), spec)
    assert kept.travel == spec.travel
    named = spec._replace(plan=spec.plan._replace(program=Program("t.py", python="python3.12")))
    assert planned("podman:i", named).python == "python3.12"


def test_pyxis_is_started_by_slurm() -> None:
    made = plan(Options(container="pyxis:nvcr.io/x#y"), job(launcher="slurm")).backend
    assert made.container is not None
    assert (made.python, made.container.entry) == ("python3", ())


def test_files_of_images_are_found_from_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert planned("apptainer:i.sif").image == f"{tmp_path}/i.sif"
    assert planned("enroot:/x/i.sqsh").image == "/x/i.sqsh"
    assert planned("apptainer:docker://x/y").image == "docker://x/y"


NODES = job().plan
REFUSED = (
    ({"container": "x"}, "write --container podman:x or docker:x"),
    ({"container": "repo/x:1"}, "write --container podman:repo/x:1 or docker:repo/x:1"),
    ({"container": "podmn:x"}, "write --container podman:x"),
    ({"container": "podman:"}, "expected one of podman:IMAGE"),
    ({"container": "podman: "}, "expected one of podman:IMAGE"),
    ({"container": "podman:--privileged"}, "expected one of podman:IMAGE"),
    ({"mount": ("/a",)}, "--mount: only with --container"),
    ({"container_args": "-v"}, "--container_args: only with --container"),
    ({"container": "exec:x", "mount": ("/a",)}, "nothing can be mounted in a running container"),
    ({"container": "prefix:x", "mount": ("/a",)}, "nothing can be mounted in a prefix"),
    ({"container": "prefix:x '"}, "No closing quotation"),
    ({"container": "podman:x", "container_args": "'"}, "--container_args \"'\": No closing"),
    ({"container": "podman:x", "mount": ("/a:b",)}, "the path inside must be absolute"),
    ({"container": "podman:x", "mount": ("/a:/b:rx",)}, "expected A[:B][:ro]"),
    ({"container": "podman:x", "mount": (":/b",)}, "expected A[:B][:ro]"),
    ({"container": "podman:x", "mount": ("",)}, "expected A[:B][:ro]"),
    ({"container": "podman:x", "mount": ("/",)}, "/ inside is the image itself"),
    ({"container": "podman:x", "mount": ("/a:/c", "/b:/c")}, "/a and /b cannot both be at /c"),
    ({"container": "enroot:x", "mount": ("/a,b:/c",)}, "'/a,b' has a ','"),
    ({"container": "enroot:x", "mount": ("/a b:/c",)}, "'/a b' has a ' '"),
    ({"container": "enroot:x", "mount": ("/a:/c\\040",)}, "which the mounts of enroot"),
    ({"container": "pyxis:x", "mount": ("/$a:/c",)}, "'/$a' has a '$', which the mounts of pyxis"),
    ({"container": "pyxis:x"}, "use --launcher slurm, or podman"),
)  # fmt: skip


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_cannot_be_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(Options(**options), job())
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (job(launcher="none"), "not with --no_ssh"),
        (job(backend=BackendSettings(rank_per_task=True)), "not with --rank_per_task"),
        (
            job(
                plan=NODES._replace(rendezvous=Rendezvous("c10d", "h:1", "x", 2, 4, {}, "", 0, 1.0))
            ),
            "--rdzv_backend c10d",
        ),
    ],
)
def test_what_does_not_go_with_a_container_is_refused(spec: JobSpec, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        plan(Options(container="podman:x"), spec)


def test_a_dry_run_shows_the_container_and_its_client() -> None:
    mounts = ("/a:/b:ro",)
    made = rows(planned("podman:img", mount=mounts, container_args="--shm-size=1g"))
    assert made[0] == ("container", "podman:img; with /a at /b (read-only), /work")
    name, text = made[1]
    assert name == "client"
    assert text.startswith("podman run --rm --interactive ")
    assert "--shm-size=1g --entrypoint=python3 img ... (with each node's devices" in text
    (only,) = rows(planned("pyxis:img", job(launcher="slurm")))
    assert only == ("container", "pyxis:img; with /work")


def test_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "SLURM_JOB_ID", "5")
    (note,) = plan(Options(container="docker:x"), job()).origin.notes
    assert "outside of the Slurm job's cgroup" in note
    given = Options(container="docker:x", container_args="--cgroup-parent=/x")
    assert plan(given, job()).origin.notes == ()
