"""The modules that are imported once on each node, from the options. Pure."""

from __future__ import annotations

from ...common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec

FLAGS = {
    "no_python": "which imports no modules",
    "rank_per_task": "which starts ranks one by one",
    "debug": "whose workers are not forked",
}
"""Options with which nothing can be preloaded, and why."""


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose nodes import the modules that the options name.

    Raises:
        UsageError: see `preloaded`.
    """
    return spec._replace(workers=spec.workers._replace(preload=preloaded(options)))


def preloaded(options: Options) -> tuple[str, ...]:
    """Return the modules of --preload, and with --warm_workers also of --warm_modules.

    Raises:
        UsageError: no worker could use them, or a module's name is invalid.
    """
    if options.preload is None and not options.warm_workers:
        return ()
    flag = "--warm_workers" if options.preload is None else "--preload"
    for name, why in FLAGS.items():
        if getattr(options, name):
            raise UsageError(f"{flag}: not with --{name}, {why}")
    named = () if options.preload is None else _names("--preload", options.preload)
    warm = _names("--warm_modules", options.warm_modules) if options.warm_workers else ()
    return tuple(dict.fromkeys((*named, *warm)))


def _names(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(part.isidentifier() for name in names for part in name.split(".")):
        raise UsageError(f"{flag} {text!r}: expected module names, such as torch,numpy")
    return names
