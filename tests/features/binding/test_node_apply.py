"""What each worker of this machine is bound to, planned and carried out."""

import json
import os
import sys

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.binding import node_apply as shares
from dsrun.launcher.features.binding.node_plan import plan
from dsrun.launcher.features.binding.node_topology import read_topology
from dsrun.launcher.node.machine.cores import unbound
from dsrun.launcher.specs.policies import BindingPolicy

from ...support.bindings import CORE, run
from ...support.needs import need

SHOW_SHARES = """
import json
from dsrun.launcher.specs.policies import BindingPolicy
from dsrun.launcher.features.binding import node_apply as shares
said = []
shares = shares.bound(BindingPolicy("core"), [None, None], said.append)
print(json.dumps([[(one.cpus, one.threads) for one in shares], said]))
"""


def test_a_narrowed_launcher_plans_inside_its_mask() -> None:
    need("taskset")
    cpu = min(os.sched_getaffinity(0))
    shown = run(
        ["taskset", "-c", str(cpu), sys.executable, "-c", SHOW_SHARES], SLURM_CPU_BIND="cores"
    )
    assert json.loads(shown) == [
        [[[cpu], 1], [[cpu], 1]],
        [
            "2 workers share 1 core",
            "usable cores here: 1, perhaps because of SLURM_CPU_BIND=cores",
        ],
    ]


def test_workers_on_the_same_cores_share_the_threads() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    here = len(read_topology().cores)
    policy, seats = BindingPolicy("socket", memory="none"), [0] * here
    found = shares.bound(policy, seats, print)
    for share, bound in zip(found, plan(read_topology(), seats, policy).bindings, strict=True):
        assert share.cpus == bound.cpus
        assert set(share.cpus) <= set(allowed)
        assert share.threads * here <= bound.cores


def test_no_way_leaves_the_threads_that_fall_to_each() -> None:
    assert shares.bound(BindingPolicy("none"), [0, None], print) == unbound(2)


@pytest.mark.parametrize(
    ("workers", "cpus", "threads"),
    [(1, 0.5, 1), (1, 1.0, 1), (1, 1.5, 1), (2, 1.5, 1), (1, 8.0, 8), (2, 5.0, 2)],
)
def test_threads_are_the_share_of_the_cpus_that_a_quota_leaves(
    workers: int, cpus: float, threads: int
) -> None:
    found = shares.bound(BindingPolicy("none"), [None] * workers, print, cpus=cpus)
    assert found[0].threads == threads


def test_workers_on_cores_of_their_own_keep_to_a_quota() -> None:
    free, bound = (
        shares.bound(BindingPolicy("core", memory="none"), [None], print, cpus=cpus)
        for cpus in (None, 0.5)
    )
    assert (bound[0].cpus, bound[0].threads) == (free[0].cpus, 1)
    assert free[0].threads == len(read_topology().cores)


def test_what_cannot_be_bound_is_told_before_the_start() -> None:
    assert shares.check({}, CORE) == ""
    assert shares.check({"OMP_PLACES": "cores"}, CORE).startswith("keeping OMP_PLACES=cores: ")
    with pytest.raises(UsageError, match="--bind_core_list"):
        shares.check({}, BindingPolicy("core", core_list="99999"))
    with pytest.raises(UsageError, match="--numa_binding exclusive: NUMA node"):
        shares.check({}, BindingPolicy("exclusive"), [0] * 5000)


def test_planning_loads_nothing_slow() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from dsrun.launcher.specs.policies import BindingPolicy\n"
        "from dsrun.launcher.features.binding import node_apply as shares\n"
        "shares.bound(BindingPolicy('core'), [None] * 2, print)\n"
        "print(sorted(set(sys.modules) - before))"
    )
    loaded = run([sys.executable, "-c", code])
    assert "dsrun.launcher.features.binding.node_topology" in loaded
    for name in ("pathlib", "glob", "fnmatch", "argparse", "logging", "typing", "torch"):
        assert f"'{name}'" not in loaded
