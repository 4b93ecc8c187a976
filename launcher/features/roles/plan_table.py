"""One role as written in a file, on the command line or in a Python program. Pure."""

from __future__ import annotations

from ...cli.options import all_options
from ...common.errors import UsageError
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...cli.option import Option


class RoleTable(NamedTuple):
    """The description of one role, as written.

    Attributes:
        name: the name of the role, not checked yet.
        where: the place for error messages: `rl.toml:3: role trainer` or `--program trainer`.
        program: the script and its arguments.
        values: the options of the role, by name.
        origins: the places of options, or of the program, for error messages: `rl.toml:5: nodes`.
    """

    name: str
    where: str
    program: tuple[str, ...]
    values: dict[str, Any]
    origins: dict[str, str]

    def get(self, option: str) -> Any:
        """Return the value of an option, which may be its default."""
        return self.values.get(option, all_options()[option].default)

    def items(self, option: str) -> tuple[str, ...]:
        """Return the items of a list with commas."""
        return tuple(filter(None, self.get(option).split(",")))

    def error(self, option: str, text: str) -> UsageError:
        """Return the error that an option, or "" for the role as a whole, has caused."""
        return UsageError(f"{self.origins.get(option, self.where)}: {text}")


def unfit(row: Option) -> str:
    """Return why a role cannot have an option; "" if it can."""
    of_job = (row.whole_job or row.only_typed or row.by_hold) and not row.also_role
    return (
        "an option of the whole job, not of a role; give it on the command line" if of_job else ""
    )
