"""What is told of an exception that no reader of data from outside has named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.unexpected import LONGEST, QUOTED, unexpected

if TYPE_CHECKING:
    from collections.abc import Callable


def raised(error: Exception, log: Callable[[str, str], None]) -> str:
    try:
        raise error
    except type(error) as caught:
        return unexpected(caught, log)


def test_the_traceback_is_logged_and_the_exception_returned(
    unexpected_faults: list[Exception],
) -> None:
    logged: list[tuple[str, str]] = []
    error = KeyError("x")
    assert raised(error, lambda text, level: logged.append((text, level))) == "KeyError: 'x'"
    ((text, level),) = logged
    assert (text.splitlines()[0], level) == ("Traceback (most recent call last):", "debug")
    assert "raise error" in text
    assert text.splitlines()[-1] == "KeyError: 'x'"
    assert unexpected_faults == [error]
    unexpected_faults.clear()


def test_what_has_come_is_not_quoted_in_full(unexpected_faults: list[Exception]) -> None:
    logged: list[str] = []
    words = raised(ValueError("x" * 100_000), lambda text, _: logged.append(text))
    assert (len(words), len(logged[0])) == (QUOTED, LONGEST)
    unexpected_faults.clear()
