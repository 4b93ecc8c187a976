"""The help of the options about the checks before the workers start."""

from __future__ import annotations

from .description import Description

OPTIONS = {
    "strict": Description("Refuse the start for what would be a warning of the quick check."),
    "no_check": Description(
        "Leave out the quick check, which compares the nodes before the start: versions, script,"
        " clocks, devices, space, limits and variables."
    ),
    "health_command": Description(
        "Shell command that must succeed on a node before the start, and before each round of an"
        " elastic job that it joins.",
        default="none",
    ),
    "health_timeout": Description("Time limit of --health_command."),
    "exclude_unhealthy": Description(
        "Start without nodes that fail a check or cannot be reached, as long as"
        " --min_elastic_nodes remain. The job is not elastic because of it; an elastic job starts"
        " without them in any case."
    ),
}
