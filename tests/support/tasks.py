"""Tasks whose policies are given field by field."""

from __future__ import annotations

from typing import Any

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.specs.policies import ElasticPolicy, WatchPolicy
from dsrun.launcher.specs.program import Program

ELASTIC = ElasticPolicy(1, 2, 3)

TRAIN = Program("train.py")

PLAIN: dict[str, Any] = {
    "workers": NodeJob._field_defaults["workers"],
    "supervision": NodeJob._field_defaults["supervision"],
    "output": NodeJob._field_defaults["output"],
    "watch": WatchPolicy(hook=False),
}
"""Policies whose fields `task_of` takes by their own names; nothing runs before a program."""


def task_of(
    *, elastic: bool = False, torch_agent: bool = False, notice: str = "", **fields: Any
) -> NodeJob:
    """A task with these fields, of its own or of a policy, for a job with rounds or without."""
    agent = "torch" if torch_agent else "dsrun"
    rounds = ELASTIC._replace(agent=agent, notice_by=notice)
    policies = {
        name: policy._replace(
            **{field: fields.pop(field) for field in policy._fields if field in fields}
        )
        for name, policy in PLAIN.items()
    }
    return NodeJob(**policies | fields, elastic=rounds if elastic or torch_agent else None)


def program_task(program: Program = TRAIN, **fields: Any) -> NodeJob:
    """A task of one worker that runs this program, with other fields as in `task_of`."""
    usual: dict[str, Any] = {
        "dsrun": __version__,
        "job_id": "j",
        "host": "n0",
        "workdir": "/",
        "env": {},
        "slots": (0,),
        "port": None,
    }
    return task_of(program=program, **usual | fields)


def unusual(value: Any) -> Any:
    """What is not as it usually is in a task or a policy, by name."""
    usual = getattr(value, "_field_defaults", None)
    if usual is None:
        return value
    fields = value._asdict().items()
    return {name: unusual(one) for name, one in fields if name not in usual or one != usual[name]}
