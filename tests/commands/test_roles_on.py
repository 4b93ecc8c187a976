"""dsrun --on with several programs: the real command, and a hold that a test plays."""

from __future__ import annotations

from pathlib import Path

from dsrun.launcher.specs import codec
from dsrun.launcher.specs.roles import RolesSpec

from ..support.limits import HANG
from ..support.played_hold import playing

LINE = (
    *("--program", "server", "--host", "localhost:0-0", "--no_python", "--ends", "never"),
    *("serve", ":", "--program", "trainer", "--host", "localhost:1-1", "--stdin", "rank0"),
    *("--ends", "job", "train.py"),
)


def test_the_hold_gets_all_roles(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with playing() as hold, hold.start("--on_busy", "refuse", *LINE, folder=tmp_path) as client:
        job, request, fds = hold.requests.get(timeout=HANG)
        hold.end(7)
        out, err = client.communicate(timeout=HANG)
    assert (client.returncode, out) == (7, b""), err
    spec = codec.decode(RolesSpec, request["spec"])
    assert (request["do"], request["busy"], len(fds)) == ("run_roles", "refuse", 3)
    assert job.held
    slots = {role.name: role.job.plan.nodes[0].slots for role in spec.roles}
    assert slots == {"server": (0,), "trainer": (1,)}


def test_what_the_hold_decides_is_refused(tmp_path: Path) -> None:
    with playing() as hold, hold.start("--launcher", "ssh", *LINE, folder=tmp_path) as client:
        _, err = client.communicate(timeout=HANG)
    assert client.returncode == 2
    assert b"not with --launcher, which dsrun-hold decides" in err


def test_a_dry_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with playing() as hold, hold.start("--dry_run", *LINE, folder=tmp_path) as client:
        out, err = client.communicate(timeout=HANG)
    assert client.returncode == 0, err
    assert out.startswith(b"role     nodes      slots  workers")
