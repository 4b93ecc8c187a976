"""What the help says about one option, beside what the table of options knows. Pure."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Description(NamedTuple):
    """What the help says about one option.

    Attributes:
        text: what the option does, with the unit of its value; a function where a table is named.
        default: what applies when the option is not given, if the default value does not show it.
        values: values to suggest where others are valid, too; a function where a table has them.
    """

    text: str | Callable[[], str]
    default: str = ""
    values: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()

    def words(self) -> str:
        """Return what the option does."""
        return self.text if isinstance(self.text, str) else self.text()

    def suggestions(self) -> tuple[str, ...]:
        """Return the values to suggest."""
        return self.values if isinstance(self.values, tuple) else self.values()


IGNORED = "Accepted for compatibility with {}; has no effect."
