"""Complete `docs/schemas/dry_run.schema.json`: every field of a policy has an entry, and no other.

An entry that is there stays: it may say more than a type does. A new one has the type of the
field, its text in the policy's docstring, and the choices of the option that fills it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from dsrun.launcher.cli.options import all_options
from dsrun.launcher.commands.json_types import jobs
from dsrun.launcher.commands.json_types.check import Check
from dsrun.launcher.commands.json_types.elastic_plan import ElasticPlan
from dsrun.launcher.commands.json_types.topo import Topo
from dsrun.launcher.common.formats import VERSIONS
from dsrun.launcher.head.exec.json_types import Exec
from dsrun.launcher.head.hooks.json_types import Event, EveryEvent
from dsrun.launcher.head.report import json_types as report
from dsrun.launcher.head.stacks.json_types import Stacks
from dsrun.launcher.specs import policies
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.dial_in import DialIn
from dsrun.launcher.specs.job import JobSpec

from .json_schema import Definitions, definition_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
PATH = "docs/schemas/dry_run.schema.json"

PLAIN = {"str": "string", "bool": "boolean", "int": "integer", "float": "number", "None": "null"}

SHAPES: dict[str, Any] = {
    one.__name__: one for one in (*policies.POLICIES, BackendSettings, DialIn)
}


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
    """

    title: str
    forms: tuple[Any, ...]
    description: str = ""
    others: tuple[Any, ...] = ()
    common: Any = None


OUTPUTS = {
    "check": Output("dsrun-check --json", (Check,)),
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
        (jobs.Jobs,),
        others=(
            jobs.Done,
            jobs.Line,
            jobs.Message,
            jobs.Report,
            jobs.Ended,
            jobs.Remains,
        ),
    ),
    "report": Output(
        "dsrun --report_file FILE",
        (report.Ended, report.Refused, report.Crashed),
        "How a job ended, as one JSON object that is written when dsrun ends. All times are in"
        " seconds.",
    ),
    "stacks": Output("dsrun-job stacks --json", (Stacks,)),
    "topo": Output("dsrun-topo --json", (Topo,)),
}
"""By the name of the schema."""


def files() -> dict[str, str]:
    """Return the schemas by their paths from the root."""
    made = {f"{FOLDER}/{name}.schema.json": schema(name, one) for name, one in OUTPUTS.items()}
    made[PATH] = _dry_run()
    return {
        path: json.dumps(one, indent=2, ensure_ascii=False) + "\n" for path, one in made.items()
    }


def schema(name: str, output: Output) -> dict[str, Any]:
    """Return the schema of an output."""
    definitions = Definitions()
    first = {"format": {"description": FORMAT, "const": VERSIONS[name]}}
    if output.common:
        first |= definitions.object(output.common)["properties"]
    forms = {definition_name(one): definitions.object(one, first) for one in output.forms}
    others = {definition_name(one): definitions.object(one, first) for one in output.others}
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


def _dry_run() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((ROOT / PATH).read_text(encoding="utf-8"))
    for name, shape in _shapes(whole["$defs"]).items():
        _complete(whole["$defs"][name], shape, name)
    return whole


def _shapes(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy that each definition of the schema describes."""
    hints = JobSpec.__annotations__.items()
    fields = {name: SHAPES.get(hint.removesuffix(" | None")) for name, hint in hints}
    parts = {"streams": policies.Streams, "rule": policies.Rule}
    return {name: shape for name, shape in (fields | parts).items() if shape and name in known}


def _complete(definition: dict[str, Any], shape: Any, policy: str) -> None:
    old, said = definition["properties"], texts(shape)
    definition["properties"] = {
        name: old.get(name)
        or {
            "description": said[name],
            **_type(hint),
            **_choices(f"{policy}.{name}"),
            **_default(shape, name),
        }
        for name, hint in shape.__annotations__.items()
    }
    definition["required"] = list(shape.__annotations__)


def _default(shape: Any, name: str) -> dict[str, Any]:
    """Return the default of a field, if it has one that JSON has, too."""
    values = shape._field_defaults
    if name not in values or hasattr(values[name], "_fields"):
        return {}
    default = values[name]
    return {"default": list(default) if isinstance(default, (tuple, frozenset)) else default}


def texts(shape: Any) -> dict[str, str]:
    """Return what the docstring of a class says of its fields."""
    found = re.findall(r"^        ([\w, ]+): (.*(?:\n            .*)*)", shape.__doc__, re.M)
    return {
        name: f"{text[0].upper()}{' '.join(text[1:].split())}"
        for names, text in found
        for name in names.split(", ")
    }


def _type(hint: str) -> dict[str, Any]:
    """Return the schema of a type hint.

    Raises:
        KeyError: there is none for it.
    """
    inner = re.fullmatch(r"(?:tuple|frozenset)\[(\w+)(?:, \.\.\.)?\]", hint)
    if inner:
        return {"type": "array", "items": _type(inner[1])}
    if hint in SHAPES:
        return {"$ref": f"#/$defs/{hint.lower()}"}
    names = [PLAIN[one] for one in hint.split(" | ")]
    return {"type": names if len(names) > 1 else names[0]}


def _choices(field: str) -> dict[str, Any]:
    """Return the values that the option that fills a field may have, if it says so."""
    choices = [list(row.choices) for row in all_options().values() if row.fills == field]
    return {"enum": choices[0]} if any(choices) else {}
