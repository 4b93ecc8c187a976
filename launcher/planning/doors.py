"""The doors by which features enter the plan of a job: one row each, imported when asked for."""

from __future__ import annotations

from ..cli.options import all_options
from ..common.entry import load
from .shape import is_elastic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..specs.job import JobSpec

DOORS = {
    "binding": (
        *("bind_cores_to_rank", "bind_to", "numa_binding"),
        *("bind_core_list", "bind_smt", "bind_memory"),
    ),
    "preload": ("preload", "warm_workers"),
    "checks": ("no_check", "exclude_unhealthy"),
    "elastic": (),
    "watch": ("expect", "rules", "within", "every", "on_missing", "checkpoints"),
    "hooks": ("metrics_file",),
    "debug": ("debug", "debug_file"),
    "sync": ("sync",),
    "placeholders": ("placeholders", "first", "rest"),
    "jax": ("jax",),
    "container": ("container", "mount", "container_args"),
}
"""Features, with the options that ask for them. An option that fills a field of a
feature's policy (`Option.fills`) asks for it as well. The `plan` function of its module
returns a job with its feature. The order matters: the elastic policy decides whether a watch may
restart a job."""


FOLDERS = {"checks": "quick_check", "container": "containers"}
"""Folders of features that differ in name from the policy that their options fill."""

_PLAN = ".{}.plan:plan"


def asked(options: Options) -> list[str]:
    """Return the doors that the options ask for with values other than their defaults."""
    changed = {n: row for n, row in all_options().items() if getattr(options, n) != row.default}
    named = {row.fills.partition(".")[0] for row in changed.values()}
    if is_elastic(options) or any(row.elastic for row in changed.values()):
        named.add("elastic")
    return [door for door, names in DOORS.items() if door in named or changed.keys() & {*names}]


def with_features(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job with the features that the options ask for.

    Raises:
        UsageError: an option of a feature is invalid.
    """
    for door in asked(options):
        spec = load(_PLAN.format(FOLDERS.get(door, door)))(options, spec)
    return spec
