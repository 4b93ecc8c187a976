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
        *(".binding.plan", "bind_cores_to_rank", "bind_to", "numa_binding"),
        *("bind_core_list", "bind_smt", "bind_memory"),
    ),
    "preload": (".preload.plan", "preload", "warm_workers"),
    "checks": (".quick_check.plan", "no_check", "exclude_unhealthy"),
    "elastic": (".elastic.plan",),
    "watch": (".watch.plan", "expect", "rules", "within", "every", "on_missing", "checkpoints"),
    "hooks": (".hooks.plan", "metrics_file"),
    "debug": (".debug.plan", "debug", "debug_file"),
    "sync": (".sync.plan", "sync"),
    "placeholders": (".placeholders.plan", "placeholders", "first", "rest"),
    "jax": (".jax.plan", "jax"),
    "container": (".containers.plan", "container", "mount", "container_args"),
}
"""Features by the names of their policies: the module below `features/` whose `plan` returns a job
with the feature, and the options that ask for it. An option that fills a field of the policy
(`Option.fills`) asks for it as well. The order matters: the elastic policy decides whether a watch
may restart a job."""


def asked(options: Options) -> list[str]:
    """Return the doors that the options ask for with values other than their defaults."""
    changed = {n: row for n, row in all_options().items() if getattr(options, n) != row.default}
    named = {row.fills.partition(".")[0] for row in changed.values()}
    if is_elastic(options) or any(row.elastic for row in changed.values()):
        named.add("elastic")
    return [one for one, row in DOORS.items() if one in named or changed.keys() & {*row}]


def with_features(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job with the features that the options ask for.

    Raises:
        UsageError: an option of a feature is invalid.
    """
    for door in asked(options):
        spec = load(f"{DOORS[door][0]}:plan")(options, spec)
    return spec
