"""`--setup` on real hosts: once where they share the folder, on each where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.errors import NODE_UNUSABLE

from .held import Held

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .hosts import Cluster

HOSTS = ("--host", "n1:1,n2:1,n3:1,n4:1", "--accelerator", "cpu", "--no_local_rank")
COMMAND = "sleep 0.1; hostname >>ran"


def test_hosts_with_one_folder_run_it_once(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print(len(open('ran').read().split()))")
    for number in (1, 2):
        ended = dsrun(*HOSTS, "--setup", COMMAND, "t.py")
        assert ended.returncode == 0, ended
        assert len((tmp_path / "ran").read_text().split()) == number
        assert ended.stdout.count(f"| {number}\n") == 4


def test_a_copy_of_the_folder_is_set_up_on_each_host(cluster: Cluster, dsrun: Dsrun) -> None:
    """The folder is at the login alone, so each host has a copy of its own."""
    place = "/dev/shm/setup-test"
    cluster.login.run(["mkdir", place])
    (cluster.login.root / place[1:] / "t.py").write_text("print(open('ran').read().strip())")
    try:
        where = ("--sync", place, "--workdir", place)
        ended = dsrun(*HOSTS, *where, "--export", f"XDG_CACHE_HOME={place}-cache",
                      "--setup", "hostname >ran", "t.py")  # fmt: skip
        assert ended.returncode == 0, ended
        told = sorted(line.rpartition("| ")[2] for line in ended.stdout.splitlines())
        assert len(told) == 4
    finally:
        for machine in cluster.machines:
            machine.run(["rm", "-rf", place, f"{place}-cache"])


def test_a_failure_starts_nothing_and_names_the_host(dsrun: Dsrun, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print('up')")
    ended = dsrun(
        *HOSTS, "--setup", "test $(hostname) != n3 || { echo no disk; exit 4; }; false", "t.py"
    )
    assert ended.returncode == NODE_UNUSABLE, ended
    assert "--setup failed (exit code" in ended.stderr
    assert ended.stdout == ""


def test_a_hold_runs_it_again_only_for_a_change(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("print('up')")
    (tmp_path / "lock").write_text("1")
    with Held(cluster, tmp_path, "n1:1,n2:1") as held:
        for content, number in (("1", 1), ("1", 1), ("2", 2)):
            (tmp_path / "lock").write_text(content)
            ended = held("--setup", COMMAND, "--setup_if", "lock", "t.py")
            assert ended.returncode == 0, ended
            assert len((tmp_path / "ran").read_text().split()) == number
        assert held.release().returncode == 0
