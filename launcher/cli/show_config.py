"""`--show_config`: every option that is set, and where. Pure."""

from __future__ import annotations

import json

from ..common.text import plain
from .options import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

TYPED = "command line"


def text(
    options: Mapping[str, object],
    given: Iterable[str],
    typed: Collection[str],
    environ: Mapping[str, str],
    origins: Mapping[str, str],
    profiles: Iterable[str] = (),
) -> str:
    """Return a line of TOML for each option that is set, with its origin as a comment.

    Args:
        options: the value of every option.
        given: the names of options that are set anywhere.
        typed: the names of options on the command line.
        environ: the environment, whose variables set others.
        origins: the places in files of the remaining options.
        profiles: each file in which no profile is chosen, and the names of its profiles.
    """
    variables = {table()[key][0]: name for name, key in _keys(environ) if key in table()}
    lines = []
    for name in options:
        if name not in given or name == "show_config":
            continue
        places = [origins.get(name, ""), variables.get(name, ""), TYPED if name in typed else ""]
        found = [place for place in places if place]
        # Only the values of a list add up.
        shown = found if isinstance(options[name], tuple) else found[-1:]
        lines.append((f"{name} = {_toml(options[name])}", ", ".join(shown)))
    width = max((len(setting) for setting, _ in lines), default=0)
    rows = [f"{plain(setting):<{width}}  # {plain(where)}\n" for setting, where in lines]
    others = [f"# profiles, for --profile NAME: {plain(one)}\n" for one in profiles]
    return "".join([*rows, *others]) or "# all options have their default values\n"


def _keys(environ: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Return variables that may set options; later ones take precedence."""
    for prefix in ("PET_", "DSRUN_"):
        for name in environ:
            if name.startswith(prefix):
                yield name, name.removeprefix(prefix).lower()


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
