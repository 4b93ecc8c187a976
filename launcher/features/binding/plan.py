"""Make the binding policy from the options. Pure."""

from __future__ import annotations

import re

from ...common.errors import UsageError, conflict
from ...specs.policies import BindingPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ...cli.options import Options
    from ...specs.job import JobSpec

TORCHRUN_POLICIES = {"node": "numa", "socket": "socket", "exclusive": "exclusive"}
"""torchrun's names of policies (`--numa_binding`), where different from `--bind_to`'s."""


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose workers are bound as the options say.

    Raises:
        UsageError: see `binding_policy` and `core_lists`.
    """
    names = [node.host.name for node in spec.plan.nodes]
    core_list, by_host = core_lists(options.bind_core_list, names)
    policy = binding_policy(options)._replace(core_list=core_list)
    return spec._replace(binding=policy, core_lists=by_host)


def binding_policy(options: Options) -> BindingPolicy:
    """Return the binding policy without the core list, which may differ from host to host.

    Raises:
        UsageError: two options give different policies, or one has no effect without binding.
    """
    bind_to = _bind_to(options)
    if bind_to == "none":
        _refuse_parts(options)
    return BindingPolicy(
        bind_to=bind_to, smt=options.bind_smt == "yes", **options.policy("binding")
    )


def binds(options: Options) -> bool:
    """Return whether cores are bound.

    Raises:
        UsageError: see `binding_policy`.
    """
    return binding_policy(options).bind_to != "none"


def core_lists(text: str, hosts: Collection[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the core list of all hosts, or (host, core list) pairs of `host:0-3@host:4-7`.

    Raises:
        UsageError: a list is malformed, or a host is unknown or named twice.
    """
    where = "--bind_core_list"
    if not text:
        return "", ()
    from ...common.cpu_list import parse_core_list

    if re.fullmatch(r"[0-9,\s-]*", text):
        parse_core_list(text, where)
        return text, ()
    lists: dict[str, str] = {}
    for part in text.split("@"):
        host, colon, cpus = part.rpartition(":")
        if not colon or host not in hosts:
            known = ", ".join(hosts)
            raise UsageError(f"{where}: '{part}': expected cpus, or host:cpus for one of: {known}")
        if host in lists:
            raise UsageError(f"{where}: host '{host}' is named twice")
        parse_core_list(cpus, where)
        lists[host] = cpus
    return "", tuple(lists.items())


def _bind_to(options: Options) -> str:
    numa = options.numa_binding
    flags = {
        "--bind_cores_to_rank": "core" if options.bind_cores_to_rank else None,
        f"--bind_to {options.bind_to}": options.bind_to,
        f"--numa_binding {numa}": TORCHRUN_POLICIES.get(numa, numa) if numa else None,
    }
    policies = {flag: policy for flag, policy in flags.items() if policy}
    if len(set(policies.values())) > 1:
        raise conflict(*policies)
    return next(iter(policies.values()), "core" if options.bind_core_list else "none")


def _refuse_parts(options: Options) -> None:
    parts = {
        "--bind_core_list": bool(options.bind_core_list),
        "--bind_smt no": options.bind_smt == "no",
        f"--bind_memory {options.bind_memory}": options.bind_memory not in {"auto", "none"},
    }
    for name, given in parts.items():
        if given:
            raise UsageError(f"{name}: has no effect without binding; add --bind_cores_to_rank")
