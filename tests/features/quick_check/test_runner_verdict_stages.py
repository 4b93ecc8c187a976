"""What nodes lack is told in the order in which it can be mended."""

from __future__ import annotations

import random

from dsrun.launcher.backends.causes import CAUSES, NO_ROUTE
from dsrun.launcher.common.wording import ANOTHER_PYTHON
from dsrun.launcher.features.quick_check.runner_verdict import in_order

LINES = [
    "n1: its name does not resolve (n1:22: name or service not known)",
    f"n2: {NO_ROUTE} (n2:22)",
    "n3: unknown host key ssh-ed25519 SHA256:x; if you trust it, run ssh-keyscan n3 >> known_hosts",
    "n4: authentication failed for me: no key was accepted; run ssh-copy-id me@n4",
    f"n5: no Python at /opt/py {ANOTHER_PYTHON}",
    "n6: no such folder: /job (--workdir names another); it is on this machine: add --sync .",
    "n7: the same machine as n6; list it once, with all its slots",
]


def test_a_node_is_reached_before_its_files_are_looked_at() -> None:
    mixed = random.Random(1).sample(LINES, len(LINES))
    assert in_order(mixed) == LINES


def test_every_known_cause_has_a_stage() -> None:
    known = [f"n1: {words}" for _, words in CAUSES if words != "WHAT" and "MPI" not in words]
    last = "n2: something else"
    assert in_order([last, *known])[-1] == last


def test_lines_of_one_stage_keep_their_order() -> None:
    lines = ["n9: no answer: x", "n2: connection refused: x", "n5: no answer: y"]
    assert in_order(lines) == lines
