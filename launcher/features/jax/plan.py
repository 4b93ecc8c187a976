"""The jobs whose workers get jax's variables, from `--jax`."""

from __future__ import annotations

from ...common.errors import UsageError
from ...specs.environment import JAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose nodes give the workers jax's variables.

    Raises:
        UsageError: torch's agent would listen on the port of jax's coordinator.
    """
    if not options.jax:
        return spec
    if flag := _with_torchs_agent(options, spec):
        raise UsageError(
            f"--jax: not with {flag}: torch's agent listens on the master port, which jax's"
            " coordinator needs; leave out one of the two"
        )
    return spec._replace(travel=spec.travel._replace(values={**spec.travel.values, JAX: "1"}))


def _with_torchs_agent(options: Options, spec: JobSpec) -> str:
    """Return the option by which torch's agent starts the workers, "" if dsrun does."""
    if spec.plan.rendezvous is not None:
        return f"--rdzv_backend {spec.plan.rendezvous.backend}"
    if spec.elastic is None or spec.elastic.agent != "torch":
        return ""
    by_name = options.elastic_agent == "torch"
    return "--elastic_agent torch" if by_name else f"--logs_specs {options.logs_specs}"
