"""What else binds: variables of the user, and of the engine that has started the node."""

from collections.abc import Mapping

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.binding import node_conflicts as conflicts


def test_kmp_affinity_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        conflicts.conflicts({"KMP_AFFINITY": "compact", "OMP_PLACES": "cores"})
    assert str(caught.value) == (
        "KMP_AFFINITY=compact: conflicts with core binding; unset it, or omit --bind_cores_to_rank"
    )


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({"OMP_PLACES": "cores"}, "OMP_PLACES=cores"),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "GOMP_CPU_AFFINITY=0-3"),
        (
            {"OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0 2"},
            "GOMP_CPU_AFFINITY=0 2, OMP_PLACES=cores",
        ),
    ],
)
def test_other_affinities_are_kept_and_told(environ: Mapping[str, str], kept: str) -> None:
    text = f"keeping {kept}: threads are placed accordingly within the bound cores"
    assert conflicts.conflicts(environ) == text


@pytest.mark.parametrize("environ", [{}, {"OMP_NUM_THREADS": "4"}, {"KMP_AFFINITY": ""}])
def test_nothing_is_told_without_a_conflict(environ: Mapping[str, str]) -> None:
    assert conflicts.conflicts(environ) is None


def test_an_engine_that_left_too_few_cores_is_named() -> None:
    environ = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "HYDRA_BINDING": ""}
    assert conflicts.confinement(environ, 1, 2) == (
        "usable cores here: 1, perhaps because of SLURM_CPU_BIND=quiet,mask_cpu:0x1"
    )
    assert conflicts.confinement(environ, 2, 2) is None
    assert conflicts.confinement({}, 1, 2) is None
