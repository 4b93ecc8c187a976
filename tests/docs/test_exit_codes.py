"""The table of exit codes in docs/automation.md has the codes of the program, and no other."""

from __future__ import annotations

import re

from dsrun.launcher.cli.help.summary import EXIT_CODES
from dsrun.launcher.common import errors
from dsrun.launcher.features.exec.runner_results import TIMED_OUT
from dsrun.launcher.features.jobs.command_cleanup import LEFT
from dsrun.launcher.features.promises.command import BROKEN

from ..support.checkout import CHECKOUT

NOT_STARTED = 126
"""As a shell has it (POSIX, 2.8.2)."""

DEFINED = {value for value in vars(errors).values() if isinstance(value, int)}
OWN = {0, BROKEN, LEFT, TIMED_OUT, NOT_STARTED, *DEFINED}


def cells() -> list[str]:
    """Return the first cell of each row of the table."""
    page = (CHECKOUT / "docs" / "automation.md").read_text(encoding="utf-8")
    section = page.partition("## Exit codes\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)[1:]


def test_the_table_has_every_code_in_order() -> None:
    assert cells() == [*map(str, sorted(OWN)), "128 + N", "any"]


def test_the_help_has_the_codes_of_a_job() -> None:
    told = {int(code) for code, _ in EXIT_CODES if code.isdigit()}
    assert told == OWN - {BROKEN, LEFT, TIMED_OUT}


def test_there_is_one_table() -> None:
    for name in ("failures", "exec"):
        page = (CHECKOUT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        assert "(automation.md#exit-codes)" in page
        assert "| 69 |" not in page.partition("## Exit codes\n")[2].partition("\n## ")[0]
