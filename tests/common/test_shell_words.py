"""Words in the text of an option."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.common.shell_words import shell_words


def test_words_are_those_of_a_shell() -> None:
    assert shell_words("--x", "") == ()
    assert shell_words("--x", "-a 'b c' d\\ e") == ("-a", "b c", "d e")


def test_an_open_quotation_is_refused_with_its_option() -> None:
    with pytest.raises(UsageError, match=r"--x \"'a\": No closing quotation"):
        shell_words("--x", "'a")
