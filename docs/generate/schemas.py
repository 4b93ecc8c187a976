"""Write `docs/schemas/*.schema.json`, each from the types of the output that it describes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from dsrun.launcher.common.entry import load
from dsrun.launcher.common.formats import VERSIONS
from dsrun.launcher.features.binding.json_types import Topo
from dsrun.launcher.features.elastic.json_types import ElasticPlan
from dsrun.launcher.features.exec.runner_json_types import Exec
from dsrun.launcher.features.full_check.json_types import CheckJson
from dsrun.launcher.features.hooks.runner_json_types import Event, EveryEvent
from dsrun.launcher.features.jobs import json_types as jobs
from dsrun.launcher.features.promises.json_types import PromisesJson
from dsrun.launcher.features.roles.plan_json_types import RolesPlan
from dsrun.launcher.features.roles.runner_json_types import RolesEnded
from dsrun.launcher.features.stacks.runner_json_types import StacksJson
from dsrun.launcher.head.doors import REPORT_SECTIONS
from dsrun.launcher.head.report import json_types as report
from dsrun.launcher.planning.json_types import AllocationJson, PlanJson

from . import plan_fields
from .json_schema import Definitions, definition_name, type_hints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsrun.launcher.head.doors import SectionDoor

    from .json_schema import More

FOLDER = "docs/schemas"
FORMAT = (
    "Version of this format. It grows if a field is renamed or removed, or means something else;"
    " new fields do not change it."
)


class Output(NamedTuple):
    """One JSON output.

    Attributes:
        title: what prints it.
        forms: the classes of its forms; each has `format` as its first field, too.
        description: of all forms together; "" if there is one, which describes itself.
        others: forms that have definitions, but are not what the schema itself describes.
        common: the class of the fields that all forms have besides; None for none.
        rare: classes of the fields that a form may have besides, by the class of the form.
        more: what is said of fields beyond their types, as for `Definitions`; None for nothing.
    """

    title: str
    forms: tuple[Any, ...]
    description: str = ""
    others: tuple[Any, ...] = ()
    common: Any = None
    rare: Mapping[Any, tuple[Any, ...]] = {}
    more: More | None = None


def section_type(section: SectionDoor) -> Any:
    """Return the class of the fields of a section of the report."""
    return type_hints(load(f"{section.module}:fields"))["return"]


OUTPUTS = {
    "check": Output("dsrun-check --json", (CheckJson,)),
    "dry_run": Output(
        "dsrun --dry_run --json",
        (PlanJson, AllocationJson),
        "The job that dsrun would run, as one JSON object on standard output. All times are in"
        " seconds.",
        more=plan_fields.more,
    ),
    "dry_run_roles": Output(
        "dsrun --roles FILE --dry_run --json", (RolesPlan,), more=plan_fields.more
    ),
    "elastic_plan": Output("dsrun-elastic --json", (ElasticPlan,)),
    "event": Output(
        "dsrun --on_event COMMAND",
        get_args(Event),
        "One event of a job, as the command gets it on its standard input.",
        common=EveryEvent,
    ),
    "exec": Output("dsrun-exec --json", (Exec,)),
    "jobs": Output(
        "dsrun-job --json",
        (jobs.JobsJson,),
        others=(
            jobs.DoneJson,
            jobs.LineJson,
            jobs.MessageJson,
            jobs.ReportJson,
            jobs.EndedJson,
            jobs.Remains,
        ),
    ),
    "promises": Output("dsrun-check --promises --json", (PromisesJson,)),
    "report": Output(
        "dsrun --report_file FILE",
        (report.StartedJobJson, RolesEnded, report.Refused, report.Crashed),
        "How a job ended, as one JSON object that is written when dsrun ends. All times are in"
        " seconds.",
        rare={report.StartedJobJson: tuple(map(section_type, REPORT_SECTIONS))},
    ),
    "stacks": Output("dsrun-job stacks --json", (StacksJson,)),
    "topo": Output("dsrun-topo --json", (Topo,)),
}
"""By the name of the schema."""


def files() -> dict[str, str]:
    """Return the schemas by their paths from the root."""
    made = {f"{FOLDER}/{name}.schema.json": schema(name, one) for name, one in OUTPUTS.items()}
    return {
        path: json.dumps(one, indent=2, ensure_ascii=False) + "\n" for path, one in made.items()
    }


def schema(name: str, output: Output) -> dict[str, Any]:
    """Return the schema of an output."""
    definitions = Definitions(output.more)
    first = {"format": {"description": FORMAT, "const": VERSIONS[name]}}
    optional: frozenset[str] = frozenset()
    if output.common:
        common = definitions.object(output.common)
        first |= common["properties"]
        optional = frozenset(common["properties"]).difference(common["required"])

    def forms_of(shapes: tuple[Any, ...]) -> dict[str, Any]:
        return {definition_name(one): form_of(one) for one in shapes}

    def form_of(shape: Any) -> dict[str, Any]:
        made = definitions.object(shape, first, optional)
        for rare in output.rare.get(shape, ()):
            made["properties"] |= definitions.object(rare)["properties"]
        return made

    forms, others = forms_of(output.forms), forms_of(output.others)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:dsrun:schema:{name}",
        "title": output.title,
    }
    if len(forms) == 1:
        (whole,) = forms.values()
        return {**head, **whole, "$defs": {**definitions.made, **others}}
    several = [{"$ref": f"#/$defs/{one}"} for one in forms]
    described = {"description": output.description, "oneOf": several}
    return {**head, **described, "$defs": {**forms, **others, **definitions.made}}
