"""Which backend starts the node launchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.launcher import BackendChoice, as_it_calls_them, choose
from dsrun.launcher.resources import aliases
from dsrun.launcher.specs.host import Host

if TYPE_CHECKING:
    from pathlib import Path

HERE, FAR = Host("localhost", (0,)), Host("far", (0,))

NO_PARAMIKO = {"launcher_args": "-v"}
"""With arguments for a program it is not for paramiko, whether it is installed or not."""

GROWS = {"elastic_training": True, "host_discovery_script": "find"}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder on PATH, which is empty, outside of any Slurm job."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def install(programs: Path, *names: str) -> None:
    for name in names:
        (programs / name).touch(0o755)


def chosen(*hosts: Host, **given: object) -> BackendChoice:
    return choose(Options(**given), hosts, alone=False)


def test_a_named_one_is_taken_in_any_case() -> None:
    assert chosen(FAR, launcher="PDSH") == BackendChoice("pdsh", "pdsh")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("kubernetes", "slurm; leave it out: inside a pod, dsrun finds the others"),
        ("PBS", "slurm; leave it out: inside a job, dsrun finds the hosts"),
        ("mpi", "slurm; name the kind of MPI: openmpi, mpich, impi or mvapich"),
        ("none", "slurm; without a launcher: --no_ssh"),
        ("srun", "slurm (did you mean slurm?)"),
        ("opnssh", "slurm (did you mean openssh?)"),
        ("xyz", "slurm"),
    ],
)
def test_what_people_call_a_launcher(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(FAR, launcher=name)
    assert str(caught.value).endswith(f", {meant}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"launcher": "rsh"}, "--launcher rsh: expected one of auto, local, ssh, openssh, pdsh,"),
        ({"launcher": "none"}, "--launcher none: expected one of auto,"),
        ({"launcher": "local"}, "--launcher local: far is not this machine"),
        (
            {"launcher": "slurm", **GROWS},
            "--launcher slurm: cannot add hosts to a running job; use ssh or openssh",
        ),
        (
            NO_PARAMIKO,
            "no way to reach other hosts: install paramiko, OpenSSH's client or pdsh",
        ),
    ],
)
def test_what_cannot_be_meant(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen(HERE, FAR, **given)
    assert str(refused.value).startswith(message)


def test_nobody_starts_nodes_on_which_the_same_command_runs() -> None:
    options = Options(launcher="pdsh", no_ssh=True)
    assert choose(options, [FAR], alone=True) == BackendChoice("none", "none (--no_ssh)")


def test_this_machine_alone_needs_no_other() -> None:
    assert chosen(HERE) == BackendChoice("local", "local (only this machine)")


@pytest.mark.parametrize("srun", [True, False])
def test_nodes_of_this_slurm_job(
    programs: Path, monkeypatch: pytest.MonkeyPatch, *, srun: bool
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "localhost")
    install(programs, *["srun"] * srun)
    assert chosen(HERE).name == ("slurm" if srun else "local")
    with pytest.raises(UsageError, match="no way to reach other hosts"):
        chosen(HERE, FAR, **NO_PARAMIKO)


@pytest.mark.parametrize("names", ["n1.site.org n2.site.org", "N1 N2", "b1 10.0.0.2"])
def test_nodes_of_this_slurm_job_under_other_names(
    programs: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    install(programs, "srun", "ssh")
    scontrol = programs / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\necho NodeName=n1 NodeAddr=10.0.0.1 NodeHostName=b1\n"
        "echo NodeName=n2 NodeAddr=10.0.0.2 NodeHostName=b2\n"
    )
    scontrol.chmod(0o755)
    aliases._aliases.cache_clear()
    hosts = [Host(name, (0, 1), where="hosts:1") for name in names.split()]
    choice = chosen(*hosts)
    assert choice.name == "slurm"
    called = as_it_calls_them(choice, hosts)
    assert called == [host._replace(name=f"n{at}") for at, host in enumerate(hosts, start=1)]
    twice = [hosts[0], Host("N1.site.org" if "." in names else "n1", where="hosts:2")]
    with pytest.raises(UsageError, match="are the same node of this Slurm job, n1; write it once"):
        as_it_calls_them(choice, twice)
    aliases._aliases.cache_clear()


@pytest.mark.parametrize(
    ("installed", "expected"),
    [
        (
            ("ssh", "pdsh"),
            BackendChoice(
                "openssh", "openssh (the ssh program; paramiko does not use --launcher_args)", True
            ),
        ),
        (("pdsh",), BackendChoice("pdsh", "pdsh (neither paramiko nor ssh is installed)")),
    ],
)
def test_the_first_that_is_installed(
    installed: tuple[str, ...], expected: BackendChoice, programs: Path
) -> None:
    install(programs, *installed)
    assert chosen(FAR, **NO_PARAMIKO) == expected


def test_where_hosts_can_come_only_those_that_reach_them(programs: Path) -> None:
    install(programs, "pdsh")
    with pytest.raises(UsageError, match="install paramiko or OpenSSH's client"):
        chosen(FAR, **GROWS, **NO_PARAMIKO)
    install(programs, "ssh")
    assert chosen(HERE, **GROWS, **NO_PARAMIKO).name == "openssh"
