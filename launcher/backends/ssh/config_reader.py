"""Reads the user's ssh configuration as OpenSSH does: with `ssh -G HOST`.

`ssh` is not run if nothing in the files matters here. If there is no `ssh` program, paramiko's
reader is used instead, which does not follow Include.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import threading
from contextlib import suppress
from functools import cache

from ...common import executable
from ...common.account import account
from ...common.errors import UsageError, reason
from . import config as ssh_config
from .config import HostConfig, LoginName, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paramiko import SSHConfig

    from ...specs.host import Host

AT_ONCE = 16
"""Number of `ssh -G` that run at a time."""

PATIENCE = 30.0
"""Seconds for `ssh -G`, whose `Match exec` may run any command."""


class ConfigReader:
    """Looks up the configuration of hosts; shared by all threads.

    Args:
        args: the user's additional arguments for `ssh`.

    Attributes:
        known: whether the user database has this user; OpenSSH does not run for others.
        keywords: the keywords of the configuration files, in lower case.
    """

    def __init__(self, args: Sequence[str] = ()) -> None:
        self._args = tuple(args)
        own = account()
        self._record = LoginName(own.name, own.home, os.environ, os.getuid())
        self._ssh = executable.find("ssh") if own.known else None
        self.known = own.known
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._planned: dict[tuple[str, str | None, int | None], HostConfig] = {}
        self.keywords = frozenset(keywords(self._record.home))

    @property
    def is_quiet(self) -> bool:
        """True if nothing in the files affects how hosts are reached."""
        return self.keywords <= ssh_config.IRRELEVANT and not self._args

    def lookup(self, name: str, user: str | None = None, port: int | None = None) -> HostConfig:
        """Return the configuration of a host; a given user and port take precedence.

        The first connection uses the results of `plan`; later ones read the configuration again.

        Raises:
            Unreadable: the configuration cannot be read; the text is ssh's own if it was run.
        """
        return self._planned.pop((name, user, port), None) or self._read(name, user, port)

    def plan(self, hosts: Sequence[Host], port: int | None) -> list[HostConfig]:
        """Return the configuration of each host, read in parallel, and keep it for `lookup`.

        Raises:
            Unreadable: see `lookup`.
        """
        from concurrent.futures import ThreadPoolExecutor

        logins = [(host.name, host.user, host.port or port) for host in hosts]
        new = [login for login in logins if login not in self._planned]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            configs = pool.map(lambda login: self._read(*login), new)
            self._planned.update(zip(new, configs, strict=True))
        return [self._planned[login] for login in logins]

    def _read(self, name: str, user: str | None, port: int | None) -> HostConfig:
        given = {**({"user": [user]} if user else {}), **({"port": [str(port)]} if port else {})}
        if self.is_quiet:
            return ssh_config.resolve(given, name, self._record)
        if not self._ssh:
            values = by_paramiko(files(self._record.home), name)
            return ssh_config.resolve({**values, **given}, name, self._record)
        to = [*(["-p", str(port)] if port else []), *(["-l", user] if user else [])]
        # Without a command, `-G` refuses ForkAfterAuthentication; with one, RemoteCommand.
        forks = "forkafterauthentication" in self.keywords or _reads_another(self._args)
        before, after = (["-o", "RemoteCommand=none"], ["true"]) if forks else ([], [])
        with self._turns:
            text = _run([self._ssh, *before, *self._args, "-T", "-G", *to, "--", name, *after])
        return ssh_config.resolve(ssh_config.parse(text), name, self._record)


@cache
def reader(args: tuple[str, ...] = ()) -> ConfigReader:
    """Return this process's only reader; `args` are the user's own for `ssh`."""
    return ConfigReader(args)


def agent() -> str:
    """Return the socket of the user's agent, or ""; paramiko uses no other."""
    return os.environ.get("SSH_AUTH_SOCK", "")


def overrides(hosts: Sequence[Host], port: int | None, args: Sequence[str] = ()) -> tuple[str, ...]:
    """Return options for `ssh` that must come before the user's own.

    A changed key is refused even if the user has set StrictHostKeyChecking to `no`, with which
    OpenSSH would connect. `SESSION` is as a session of dsrun needs it. Hosts that share an `ssh`
    command line get the strictest of their settings.

    Args:
        hosts: all hosts that share the options.
        port: see `ConfigReader.plan`.
        args: the user's own arguments for `ssh`.

    Raises:
        UsageError: the configuration cannot be read.
    """
    words = f"{' '.join(args)} {' '.join(reader().keywords)}".lower()
    own = _for_session(args)
    configs = plan(hosts, port, args) if "stricthostkeychecking" in words else []
    if not any(config.checking in ssh_config.CARELESS for config in configs):
        return own
    checking = "accept-new" if all(config.accepts_new_keys for config in configs) else "yes"
    return (*own, "-o", f"StrictHostKeyChecking={checking}")


def _for_session(args: Sequence[str]) -> tuple[str, ...]:
    """Return the options of `SESSION` that files or arguments of the user may set otherwise."""
    given = " ".join(args).lower()
    files = ssh_config.EVERY if _reads_another(args) else reader().keywords
    wanted = {
        name: value
        for name, value in ssh_config.SESSION.items()
        if name.lower() in files or name.lower() in given
        if name not in ssh_config.USERS or name.lower() not in given
    }
    if not ssh_config.NEWER.isdisjoint(wanted):
        older = ssh_config.NEWER - _known_to_ssh()
        wanted = {name: value for name, value in wanted.items() if name not in older}
    return tuple(word for name in wanted for word in ("-o", f"{name}={wanted[name]}"))


def _reads_another(args: Sequence[str]) -> bool:
    """Return whether these arguments name a configuration file, whose keywords are not known."""
    return any(word.startswith("-F") for word in args)


@cache
def _known_to_ssh() -> frozenset[str]:
    """Return the keywords of `NEWER` that this `ssh` knows: 8.6 and before end with an error."""
    try:
        text = _run([executable.located("ssh"), "-F", "/dev/null", "-G", "--", "localhost"])
    except (Unreadable, FileNotFoundError):
        return frozenset()
    known = ssh_config.parse(text)
    return frozenset(name for name in ssh_config.NEWER if name.lower() in known)


def check(
    hosts: Sequence[Host], port: int | None, args: Sequence[str] = (), *, program: bool = True
) -> None:
    """Check that the whole configuration can be read, as OpenSSH reads it for any host.

    Args:
        hosts: all hosts.
        port: see `ConfigReader.plan`.
        args: the user's own arguments for `ssh`.
        program: whether the program `ssh` will be run.

    Raises:
        UsageError: the configuration cannot be read, with ssh's own text; or this user cannot
            run `ssh`.
    """
    if not reader().known:
        _check_unknown(hosts, port, program=program)
    elif hosts and not reader().is_quiet:
        plan(hosts[:1], port, args)


def _check_unknown(hosts: Sequence[Host], port: int | None, *, program: bool) -> None:
    """Check that a user without an entry in the user database can log in on all hosts."""
    if hosts and program:
        raise UsageError(
            f"the program ssh does not run for uid {os.getuid()}, which has no entry in the user"
            " database: add one to /etc/passwd, or use --launcher ssh, which needs none"
        )
    plan(hosts, port)


def plan(hosts: Sequence[Host], port: int | None, args: Sequence[str] = ()) -> list[HostConfig]:
    """Return the configuration of each host.

    Raises:
        UsageError: the configuration cannot be read; the text is ssh's own.
    """
    try:
        return reader(tuple(args)).plan(hosts, port)
    except Unreadable as error:
        raise UsageError(f"ssh configuration: {error}") from None


def files(home: str) -> tuple[str, str]:
    """Return the files that OpenSSH reads, in its order."""
    return f"{home}/.ssh/config", "/etc/ssh/ssh_config"


def keywords(home: str) -> Iterator[str]:
    """Yield the keywords of the files and of included files, in lower case."""
    seen: set[str] = set()
    for path in files(home):
        yield from _keywords(path, home, os.path.dirname(path), seen)


def _keywords(path: str, home: str, folder: str, seen: set[str]) -> Iterator[str]:
    seen.add(path)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        keyword, _, rest = re.sub(r"[\s=]+", " ", line.strip(), count=1).partition(" ")
        keyword = keyword.strip('"').lower()
        if keyword and not keyword.startswith("#"):
            yield keyword
        for one in _included(rest, home, folder) if keyword == "include" else ():
            if one not in seen:
                yield from _keywords(one, home, folder, seen)


def _included(patterns: str, home: str, folder: str) -> list[str]:
    with suppress(ValueError):
        names = [re.sub("^~(?=/)", home, name) for name in shlex.split(patterns)]
        return [path for name in names for path in glob.glob(os.path.join(folder, name))]
    return []


def _run(argv: Sequence[str]) -> str:
    """Return the output of `ssh -G`.

    Raises:
        Unreadable: the command fails, or takes too long.
    """
    import subprocess

    try:
        ran = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PATIENCE
        )
    except OSError as error:
        raise Unreadable(f"ssh: {reason(error)}") from None
    except subprocess.TimeoutExpired:
        raise Unreadable(
            f"`ssh -G {argv[argv.index('--') + 1]}` took longer than {PATIENCE:.0f} s"
        ) from None
    if ran.returncode:
        lines = map(str.strip, ran.stderr.decode("utf-8", "replace").splitlines())
        causes = [line for line in lines if line and "terminating, " not in line]
        raise Unreadable("; ".join(causes[:2])[:300] or f"ssh -G: exit code {ran.returncode}")
    return ran.stdout.decode("utf-8", "surrogateescape")


def by_paramiko(paths: Sequence[str], name: str) -> dict[str, list[str]]:
    """Return the configuration according to paramiko.

    Raises:
        Unreadable: paramiko fails; its exceptions are of many types, and none names the line.
    """
    try:
        from .library import paramiko
    except ImportError:
        from ...common.packages import lacks

        why = lacks("paramiko", "reads it where the program ssh is missing")
        raise Unreadable(f"{paths[0]}: {why}") from None
    config = paramiko.SSHConfig()
    for path in paths:
        _parse(config, path)
    try:
        values: dict[str, object] = {**config.lookup(name)}
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, (KeyError, OSError)) and not account().known:  # getpass.getuser
            why = f"uid {os.getuid()} has no entry in the user database; set LOGNAME"
        raise Unreadable(f"{paths[0]}: {why}") from None
    return {
        keyword: [*value] if isinstance(value, list) else [str(value or "none")]
        for keyword, value in values.items()
    }


def _parse(config: SSHConfig, path: str) -> None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    left = iter(lines)
    try:
        config.parse(left)
    except Exception as error:
        raise Unreadable(f"{path} line {len(lines) - len([*left])}: {error}") from None
