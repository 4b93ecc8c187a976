"""The JSON types of a hold's status, as `dsrun-job --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from ...common.json_types import one_of
from .runner import HoldPhase


class HeldHost(TypedDict):
    """One host of a hold.

    Attributes:
        name: its name.
        slots: its slots: indexes or ids of devices.
        state: whether a job uses it.
        reason: why it is lost, "" otherwise.
    """

    name: str
    slots: Sequence[int | str]
    state: Literal["free", "busy", "lost"]
    reason: str


class HeldRunJson(TypedDict):
    """One job on a hold.

    Attributes:
        job: its id.
        state: whether it waits for its slots.
        hosts: the hosts that it uses.
        ranks: the number of slots in use.
        since: the time of its start, in seconds since 1970; None while it waits.
    """

    job: str
    state: Literal["waiting", "running"]
    hosts: Sequence[str]
    ranks: int
    since: float | None


class HoldJson(TypedDict):
    """One hold.

    Attributes:
        name: its name.
        version: the version of its dsrun-hold.
        since: the time of its start, in seconds since 1970.
        state: the phase of the hold.
        launcher: the launcher of its nodes, as for --launcher.
        hosts: its hosts.
        runs: the jobs that run on it, or wait for it.
        last: its own newest message.
    """

    name: str
    version: str
    since: float
    state: Annotated[str, one_of(one.value for one in HoldPhase)]
    launcher: str
    hosts: list[HeldHost]
    runs: list[HeldRunJson]
    last: str
