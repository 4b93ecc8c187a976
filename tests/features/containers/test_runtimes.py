"""The command line of each runtime's client."""

from __future__ import annotations

import csv

import pytest

from dsrun.launcher.features.containers.runtimes import (
    HostView,
    Inside,
    attach,
    client,
    is_rootfs,
    passed_on,
)
from dsrun.launcher.specs.container import ContainerSpec, Mount

INSIDE = Inside(("python3", "-c", "x"), image="abc", cidfile="/c")
VIEW = HostView(variables=("NAME",))
STRANGE = 'a, "b"\n:c'


def spec(
    runtime: str, *mounts: Mount, image: str = "img", args: tuple[str, ...] = ()
) -> ContainerSpec:
    return ContainerSpec(runtime, image, mounts=mounts, args=args, job="j1")


def test_podman() -> None:
    assert client(spec("podman"), VIEW, INSIDE) == [
        *("podman", "run", "--rm", "--interactive", "--cidfile=/c", "--label=dsrun.job=j1"),
        *("--log-driver=none", "--security-opt=label=disable", "--pids-limit=-1"),
        *("--network=host", "--ipc=host", "--workdir=/", "--user=0:0", "--env=NAME"),
        *("--entrypoint=python3", "abc", "-c", "x"),
    ]


def test_a_user_keeps_the_files_that_are_written_inside() -> None:
    own = HostView(uid=5, gid=6, groups=(7, 8))
    assert {"--userns=keep-id", "--user=5:6"} <= {*client(spec("podman"), own, INSIDE)}
    words = client(spec("docker"), own, INSIDE)
    assert {"--user=5:6", "--group-add=7", "--group-add=8"} <= {*words}
    assert "--userns=keep-id" not in words


def test_a_control_line_over_tls_needs_no_standard_input() -> None:
    assert "--interactive" not in client(spec("docker"), VIEW, INSIDE._replace(stdio=False))
    assert "--interactive" not in attach(spec("podman"), VIEW, INSIDE._replace(stdio=False))


def test_arguments_of_the_user_come_last_and_replace_what_can_be_given_once() -> None:
    args = ("--network", "none", "--ulimit=nofile=5", "--shm-size=1g")
    view = HostView(limits=(("nofile", 10, 20), ("core", 0, -1)))
    words = client(spec("docker", args=args), view, INSIDE)
    assert words[words.index("--network") :] == [*args, "--entrypoint=python3", "abc", "-c", "x"]
    assert "--network=host" not in words
    assert [word for word in words if word.startswith("--ulimit")] == [
        *("--ulimit=core=0:-1", "--ulimit=nofile=5")
    ]


HIGHEST = ["memlock=-1:-1", "nofile=2000000:2000000", "nproc=-1:-1", "stack=8:9"]
PODMANS = ["memlock=-1:-1", "nofile=1048576:1048576", "nproc=32768:32768", "stack=8:9"]


@pytest.mark.parametrize(
    ("runtime", "raises", "limits"),
    [("docker", False, HIGHEST), ("podman", True, HIGHEST), ("podman", False, PODMANS)],
)
def test_limits_are_the_hosts_hard_ones(runtime: str, raises: bool, limits: list[str]) -> None:
    given = (("memlock", 5, -1), ("nofile", 1024, 2000000), ("nproc", 99, -1), ("stack", 8, 9))
    words = client(spec(runtime), HostView(limits=given, raises=raises), INSIDE)
    found = [word.removeprefix("--ulimit=") for word in words if word.startswith("--ulimit=")]
    assert found == limits


def test_devices() -> None:
    view = HostView(devices=("/dev/kfd", "/dev/infiniband"), device_groups=(44,), nvidia=True)
    words = client(spec("docker"), view, INSIDE)
    assert {"--gpus=all", "--device=/dev/kfd", "--device=/dev/infiniband"} <= {*words}
    assert "--group-add=44" in words
    assert "--device=nvidia.com/gpu=all" not in client(spec("podman"), view, INSIDE)
    assert "--device=nvidia.com/gpu=all" in client(spec("podman"), view._replace(cdi=True), INSIDE)
    assert {"--nv", "--rocm"} <= {*client(spec("apptainer"), view, INSIDE)}


def test_paths_of_mounts_are_fields_of_csv() -> None:
    mounts = (Mount(STRANGE, f"/{STRANGE}", read_only=True), Mount("/a", "/b"))
    for runtime, mode in (("podman", "readonly"), ("docker", "readonly"), ("apptainer", "ro")):
        words = client(spec(runtime, *mounts), VIEW, INSIDE)
        text = "\0".join(words).replace("\0--mount\0", "\0--mount=")
        values = [one.removeprefix("--mount=") for one in text.split("\0") if "type=bind" in one]
        fields = [next(csv.reader([value])) for value in values]
        assert fields[0] == ["type=bind", f"source={STRANGE}", f"target=/{STRANGE}", mode]
        assert fields[1] == ["type=bind", "source=/a", "target=/b"]


def test_apptainer_and_enroot_and_a_prefix() -> None:
    mount = Mount("/a", "/b", read_only=True)
    assert client(spec("apptainer", mount, image="/i.sif", args=("--fakeroot",)), VIEW, INSIDE) == [
        *("apptainer", "exec", "--cleanenv", "--pwd=/"),
        *("--mount", "type=bind,source=/a,target=/b,ro", "--fakeroot"),
        *("/i.sif", "python3", "-c", "x"),
    ]
    assert client(spec("enroot", mount, image="/i.sqsh"), VIEW, INSIDE) == [
        *("enroot", "start", "--mount", "/a:/b:none:x-create=auto,rbind,ro", "--env", "NAME"),
        *("/i.sqsh", "python3", "-c", "x"),
    ]
    words = client(spec("prefix", image="nice -n 5 'my tool'", args=("-v",)), VIEW, INSIDE)
    assert words == ["nice", "-n", "5", "my tool", "-v", "python3", "-c", "x"]


def test_a_running_container() -> None:
    view = HostView(uid=5, gid=6, variables=("NAME",))
    assert attach(spec("podman"), view, INSIDE) == [
        *("podman", "exec", "--interactive", "--workdir=/", "--env=NAME"),
        *("abc", "python3", "-c", "x"),
    ]
    assert "--user=5:6" in attach(spec("docker"), view, INSIDE)


def test_a_root_file_system() -> None:
    assert is_rootfs(spec("podman", image="/:O"))
    assert not is_rootfs(spec("docker", image="/x"))
    words = client(spec("podman", image="/:O"), VIEW, INSIDE._replace(image=""))
    assert words[-4:] == ["--rootfs", "/:O", "-c", "x"]


def test_what_a_scheduler_sets_on_a_host_is_passed_on() -> None:
    names = ["PATH", "SLURM_PROCID", "CUDA_VISIBLE_DEVICES", "HOME", "SLURMD_NODENAME", "HF_TOKEN"]
    assert passed_on(names) == ["CUDA_VISIBLE_DEVICES", "SLURMD_NODENAME", "SLURM_PROCID"]
