"""What the schemas of dry runs say of fields beyond their types: choices, and defaults."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from dsrun.launcher.cli.options import Options, all_options
from dsrun.launcher.common.formats import as_json
from dsrun.launcher.features.binding.node_plan import POLICIES as BINDINGS
from dsrun.launcher.features.elastic import plan as elastic
from dsrun.launcher.features.elastic.plan_batch_settings import SCHEMAS
from dsrun.launcher.planning.json_types import PlanJson
from dsrun.launcher.specs import policies
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.batch_plan import BatchSettings
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Origin
from dsrun.launcher.specs.rendezvous import Rendezvous
from dsrun.launcher.specs.roles import READY, Ready
from dsrun.launcher.specs.verdict import FailureClass

from .json_schema import type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    Field = tuple[Any, str]

DEFAULTS: dict[Field, Any] = {
    (policies.ElasticPolicy, "restarts"): elastic.DEEPSPEED_RESTARTS,
    (policies.ElasticPolicy, "patience"): Options().grace + elastic.MARGIN,
    (Rendezvous, "endpoint"): "",
    (Rendezvous, "local_addr"): "",
    (Rendezvous, "restarts"): 0,
    (Rendezvous, "interval"): Options().monitor_interval,
    **{(PlanJson, name): None for name in ("master_addr", "master_port", "debug", "elastic")},
    **{(PlanJson, name): None for name in ("sync", "updates", "batches")},
    (PlanJson, "withheld"): (),
    (PlanJson, "core_lists"): {},
}
"""What planning makes of a field if no option says more, where the class has no such default."""

ALWAYS_MADE: frozenset[Field] = frozenset(
    {(BackendSettings, "python"), (Origin, "source"), (Origin, "choice")}
)
"""Fields whose defaults are never in a dry run."""

CHOICES: dict[Field, Iterable[object]] = {
    (policies.BindingPolicy, "bind_to"): ("none", *BINDINGS),
    (policies.OutputPolicy, "fold"): ("auto", "always", "never"),
    (policies.OutputPolicy, "level"): all_options()["log_level"].choices,
    (policies.OutputPolicy, "log_layout"): all_options()["log_layout"].choices,
    (policies.Rule, "then"): policies.ALERT_ACTIONS,
    (policies.Streams, "default"): policies.STREAM_NUMBERS,
    (policies.ElasticPolicy, "agent"): all_options()["elastic_agent"].choices,
    (policies.ElasticPolicy, "restart_on"): [one.value for one in FailureClass],
    (BatchSettings, "schema"): SCHEMAS.values(),
    (Ready, "kind"): READY,
}
"""The values of fields that no option fills as they are; of a list, those of its items."""


def more(shape: Any, field: str) -> dict[str, Any]:
    """Return the choices and the default of a field, as far as there are any."""
    return {**_choices(shape, field), **_default(shape, field)}


def _choices(shape: Any, field: str) -> dict[str, Any]:
    option = _filling(shape, field)
    known = CHOICES.get((shape, field)) or (all_options()[option].choices if option else ())
    choices = {"enum": list(known)} if known else {}
    is_list = str(shape.__annotations__[field]).startswith(("frozenset", "tuple"))
    return {"items": choices} if choices and is_list else choices


def _default(shape: Any, field: str) -> dict[str, Any]:
    """Return the default: of the option that fills the field, of planning, or of the class."""
    if (shape, field) in ALWAYS_MADE:
        return {}
    option, defaults = _filling(shape, field), getattr(shape, "_field_defaults", {})
    if option:
        value = getattr(Options(), option)
        return {"default": as_json(not value if option.startswith("no_") else value)}
    if (shape, field) in DEFAULTS:
        return {"default": as_json(DEFAULTS[shape, field])}
    if field in defaults and not hasattr(defaults[field], "_fields"):
        return {"default": as_json(defaults[field])}
    return {}


def _filling(shape: Any, field: str) -> str:
    """Return the name of the option that fills a field of a policy as it is, "" for none."""
    fills = f"{_policies().get(shape)}.{field}"
    return next((name for name, one in all_options().items() if one.fills == fills), "")


@cache
def _policies() -> dict[Any, str]:
    """Return the names that the classes of a job's parts have in `JobSpec`."""
    hints = type_hints(JobSpec).items()
    return {shape: name for name, hint in hints for shape in (hint, *get_args(hint))}
