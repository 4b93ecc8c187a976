"""The host half, and jobs through stand-ins of runtimes that are not here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsrun.launcher.common.errors import NODE_UNUSABLE
from dsrun.launcher.features.containers import node_records
from dsrun.launcher.node.machine import processes
from dsrun.launcher.specs.container import PROGRAM, ContainerSpec, Mount, packed, unpacked

from ...support.checkout import CHECKOUT

WORKER = """
import json, os, sys
get = os.environ.get
print(json.dumps([get("HOME"), get("GIVEN"), get("LEAKED"), os.getcwd()]))
sys.exit(int(sys.argv[1]))
"""


STAND_IN = Path(__file__).with_name("stand_in.py")


class Place:
    """A folder with a script, and stand-ins on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in ("docker", "apptainer", "enroot"):
            file = self.bin / name
            file.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} {name} "$@"\n')
            file.chmod(0o755)
        (folder / "work").mkdir()
        (folder / "work/t.py").write_text(WORKER)
        (folder / "i.sif").write_text("image")
        (folder / "images.json").write_text(json.dumps({"img": {"Id": "sha256:abc"}}))
        self.environ = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "STAND_IN": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LEAKED": "1",
        }

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run dsrun."""
        return subprocess.run(
            [sys.executable, str(CHECKOUT / "bin/dsrun"), "--no_local_rank", *words],
            cwd=self.folder / "work",
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def calls(self) -> list[list[str]]:
        """The calls of stand-ins so far."""
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("container", ["docker:img", "apptainer:../i.sif", "enroot:../i.sif"])
def test_a_job_runs_through_each_client(place: Place, container: str) -> None:
    place.environ["GIVEN"] = value = "a\n'\"$HOME"
    words = ("--container", container, "--num_gpus", "2", "--prefix", "", "--export", "GIVEN")
    ended = place(*words, "--mount", f"{place.folder}:/all:ro", "t.py", "7")
    assert ended.returncode == 7, ended
    home = "/home-of-the-image"
    found = {line for line in ended.stdout.splitlines() if line.startswith("[")}
    assert found == {json.dumps([home, value, None, str(place.folder / "work")])}, ended
    assert list((place.folder / "containers").glob("*")) == [] or "docker" not in container


def test_an_image_that_is_missing_is_pulled_once(place: Place) -> None:
    assert place("--container", "docker:new", "t.py", "0").returncode == 0
    assert place("--container", "docker:new", "t.py", "0").returncode == 0
    assert [words[1:] for words in place.calls].count(["pull", "--quiet", "new"]) == 1


def test_the_container_of_a_dead_client_is_removed_by_its_id_and_label(place: Place) -> None:
    job, record = left_over(place)
    for number, label in (("2" * 64, job), ("3" * 64, "other")):
        (place.folder / "containers" / number).write_text(label)
    foreign = record.with_name(f"elsewhere{record.name[record.name.index('.') :]}")
    foreign.write_text("2" * 64)
    wrong = record.with_name(record.name.replace(job, "20200101-000000-abcdef"))
    wrong.write_text("3" * 64)
    assert place("--container", "docker:img", "t.py", "0").returncode == 0
    left = sorted(one.name[0] for one in (place.folder / "containers").iterdir())
    assert left == ["2", "3"], "that of another host, and one with another label"
    assert foreign.exists()
    assert not record.exists()


def left_over(place: Place) -> tuple[str, Path]:
    """Have the container of a job whose client is dead: the job, and the container's record."""
    assert place("--container", "docker:img", "t.py", "0").returncode == 0
    (record,) = (place.folder / "cache/dsrun/containers").glob("*.cid")
    job = record.name.split(".")[-4]
    (place.folder / "containers" / ("1" * 64)).write_text(job)
    record.write_text("1" * 64)
    return job, record


@pytest.mark.parametrize("container", ["docker:img", "docker:new", "exec:mine"])
def test_a_daemon_that_is_down_is_named_and_its_containers_are_not_forgotten(
    place: Place, container: str
) -> None:
    _, record = left_over(place)
    (place.folder / "down").touch()
    ended = place("--container", container, "t.py", "0")
    assert ended.returncode == NODE_UNUSABLE, ended
    assert "Cannot connect to the Docker daemon. Is the docker daemon running?" in ended.stderr
    assert "pull" not in ended.stderr
    (place.folder / "down").unlink()
    assert record.exists()
    assert place("--container", "docker:img", "t.py", "0").returncode == 0
    assert not record.exists()
    assert not list((place.folder / "containers").iterdir())


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [("down", "Cannot connect to the Docker daemon"), ("stuck", "daemon: could not kill 1111")],
)
def test_what_cannot_be_stopped_is_said_and_kept_in_mind(
    place: Place, monkeypatch: pytest.MonkeyPatch, obstacle: str, why: str
) -> None:
    job, record = left_over(place)
    for name in ("PATH", "STAND_IN", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, place.environ[name])
    (place.folder / obstacle).touch()
    ended, left = node_records.stop(job, 1.0)
    assert not ended
    (line,) = left
    assert line.startswith("docker container 111111111111: ")
    assert why in line
    (place.folder / obstacle).unlink()
    assert node_records.stop(job, 1.0) == (["docker container 111111111111"], [])
    assert not record.exists()


def test_a_container_that_is_just_being_made_stays_in_mind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client, played by this process, has not written the id yet."""
    job, record = left_over(place)
    for name in ("PATH", "STAND_IN", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, place.environ[name])
    dead = record.name.removesuffix(".cid").rpartition(".")[0].rpartition(".")[0]
    pid = os.getpid()
    young = record.with_name(f"{dead}.{pid}.{processes.started(pid)}.cid")
    young.touch()
    assert node_records.stop(job, 0.0) == (["docker container 111111111111"], [])
    assert young.exists()
    assert not record.exists()


REFUSED = (
    ("docker:none", "the image cannot be pulled: Error response from daemon: manifest for none"),
    ("apptainer:none.sif", "no such file or directory on this host"),
    ("exec:none", "neither podman nor docker has one on this host"),
    ("podmans:x", "expected one of"),
)


@pytest.mark.parametrize(("container", "why"), REFUSED)
def test_what_is_missing_is_said_in_a_line(place: Place, container: str, why: str) -> None:
    ended = place("--container", container, "t.py", "0")
    assert ended.returncode in {NODE_UNUSABLE, 2}, ended
    assert [line for line in ended.stderr.splitlines() if why in line], ended
    assert "Traceback" not in ended.stderr


def containers(place: Place, name: str, **state: object) -> None:
    """Have a container of that name."""
    facts = {"Id": "c" * 64, "Image": "sha256:abc", "State": {"Running": True}, **state}
    (place.folder / "containers.json").write_text(json.dumps({name: facts}))


def test_a_running_container_is_entered_by_its_id(place: Place) -> None:
    containers(place, "mine")
    ended = place("--container", "exec:mine", "--prefix", "", "t.py", "3")
    assert ended.returncode == 3, ended
    (words,) = (one for one in place.calls if one[1] == "exec")
    assert "c" * 64 in words
    assert "mine" not in words


def test_a_container_that_does_not_run_is_refused(place: Place) -> None:
    containers(place, "mine", State={"Running": False, "Status": "exited"})
    ended = place("--container", "exec:mine", "t.py", "0")
    assert ended.returncode == NODE_UNUSABLE
    assert "the container is exited on this host; start it first" in ended.stderr


def test_a_prefix_is_put_before_the_node_launcher(place: Place) -> None:
    ended = place("--container", "prefix:env GIVEN='a b'", "--prefix", "", "t.py", "5")
    assert ended.returncode == 5, ended
    assert '"a b"' in ended.stdout


def test_a_word_is_for_any_shell_and_has_everything() -> None:
    spec = ContainerSpec(
        "podman", "a b", "py", (Mount("/x\n'", "/y"),), ("--a", ""), "j", True, True
    )
    word = packed(spec)
    assert unpacked(word) == spec
    assert spec.entry == (PROGRAM, word)
    assert all(letter.isalnum() or letter in "-_=" for letter in word)


def test_a_damaged_word_is_refused() -> None:
    command = [sys.executable, "-m", "dsrun.launcher.node.main", PROGRAM, "!!", "--stdio"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("dsrun: container: ")
    assert "Traceback" not in ended.stderr
