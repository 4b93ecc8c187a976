"""Several programs on the command line: `[options] --program NAME ... : --program NAME ...`.

A word that is only a colon separates two programs, as for mpirun. This holds only for a command
line with `--program` before its script; everywhere else a colon is an argument like any other.
"""

from __future__ import annotations

from itertools import pairwise

from ...cli.options import all_options
from ...cli.parser import parse
from ...common.errors import UsageError
from ...common.records import NamedTuple
from .plan_table import RoleTable, unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FLAG = "--program"
COLON = ":"


class Parts(NamedTuple):
    """A command line: the options of the whole job, and the words of each program."""

    job: tuple[str, ...]
    programs: tuple[tuple[str, ...], ...]


def parts(argv: Sequence[str], words: int) -> Parts:
    """Return the parts of a command line; its first `words` words are options."""
    begins = (at for at in range(words) if argv[at].partition("=")[0] == FLAG)
    first = next(begins, words)
    programs: list[list[str]] = [[]]
    for word in argv[first:]:
        if word == COLON:
            programs.append([])
        else:
            programs[-1].append(word)
    return Parts(tuple(argv[:first]), tuple(map(tuple, programs)))


def tables(programs: Sequence[Sequence[str]]) -> list[RoleTable]:
    """Return the roles that the words of programs describe.

    Raises:
        UsageError: an option is invalid, or there is no script; the message names the program.
    """
    return [table(words) for words in programs]


def table(words: Sequence[str]) -> RoleTable:
    """Return the role that `--program NAME [options] SCRIPT [ARGS...]` describes.

    Raises:
        UsageError: an option is invalid, or there is no script; the message names the program.
    """
    if not words:
        raise UsageError(
            f"a lone {COLON} separates two programs, and one of them is missing:"
            f" expected {FLAG} NAME"
            " [options] SCRIPT [ARGS...]"
        )
    _check_parted(words)
    where = _where(words)
    try:
        command = parse(words, {})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    name = command.options.program
    if command.help or command.version or name is None:
        raise UsageError(f"{where}: expected {FLAG} NAME at the beginning of each program")
    where = f"{FLAG} {name}"
    if not any(command.program[:1]):
        raise UsageError(f"{where}: no script: {where} [options] SCRIPT [ARGS...]")
    given = command.given - {"program"}
    for one in sorted(given):
        why = unfit(all_options()[one])
        if why:
            raise UsageError(f"{where}: --{one}: {why}, before the first {FLAG}")
    values = {one: getattr(command.options, one) for one in given}
    origins = {one: f"{where}: --{one}" for one in given}
    return RoleTable(name, where, command.program, values, origins)


def _where(words: Sequence[str]) -> str:
    """Return the name, for errors, of a program whose options cannot be read."""
    first, _, attached = words[0].partition("=")
    if first != FLAG:
        return f"the program after {COLON}, which begins with {words[0]}"
    return f"{FLAG} {attached or ''.join(words[1:2])}"


def _check_parted(words: Sequence[str]) -> None:
    """Check that the words of a program are not two programs without a colon between.

    Raises:
        UsageError: a colon is missing; the message shows the words at the place.
    """
    for before, word in pairwise(words):
        begin, after = word.partition("=")[0], before.removesuffix(COLON)
        if begin == FLAG:
            raise UsageError(
                f"{before} {word}: a lone {COLON} separates two programs: {after} {COLON} {word}"
            )
        if begin == f"{COLON}{FLAG}":
            raise UsageError(
                f"{word}: a lone {COLON} separates two programs: {after} {COLON} {word[1:]}"
            )
