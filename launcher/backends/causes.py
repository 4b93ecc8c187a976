"""The reasons why a host cannot be used: a table of messages of ssh, shells and Python."""

from __future__ import annotations

import re
from signal import SIGKILL

from ..common.errors import INTERNAL
from ..common.records import NamedTuple
from ..common.wording import ANOTHER_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..specs.host import Host

NO_ROUTE = "no route to it: it is down, a firewall rejects the connection, or its address is wrong"


class SessionFailed(Exception):
    """A session was not established; the text is the cause."""


ACCOUNT = "; give this user an ordinary shell there, or name another user: USER@HOST"

ACCOUNTS: tuple[tuple[str, str], ...] = (
    (r"^dsrun: (.{1,400})", "WHAT"),
    (
        r"account is currently not available|account (?:is|has been) (?:disabled|locked)",
        f"its login shell refuses all commands (nologin){ACCOUNT}",
    ),
    (
        r"^-?[\w./-]{0,99}sh:(?: ?[^\n:]{1,99}:){0,3} restricted\b",
        f"its login shell is restricted and may not run PYTHON{ACCOUNT}",
    ),
    (
        r"^[\w./-]{0,99}sh:exec:\d{1,9}: [^\n:]{1,300}: restricted\b",
        f"its login shell is restricted and may not run PYTHON{ACCOUNT}",
    ),
    (
        r"^fatal: unrecognized command '|git shell is not enabled|does not provide shell access"
        r"|allows sftp connections only|[Ff]orbidden command",
        f"its sshd or login shell runs only other commands (ForceCommand, git-shell){ACCOUNT}",
    ),
    (
        r"[Pp]lease login as the user \"?([\w.-]{1,64})",
        "its sshd requires another user: write WHAT@HOST, or User WHAT in ~/.ssh/config",
    ),
    (
        r"[Uu]nprivileged users are not permitted to log in"
        r"|^\W*[Ss]ystem is (?:going down|booting up)",
        "only root may log in there now: it is booting or shutting down, or has /etc/nologin",
    ),
)
"""Messages of accounts that can log in but cannot run commands, with any exit code."""

CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"Unable to run bstrap_proxy",
        "Intel MPI could not reach it and gives no reason; try `ssh HOST true`",
    ),
    (r"Could not resolve hostname|Name or service not known", "its name does not resolve"),
    (r"Connection refused", "connection refused: no sshd on that port"),
    (r"timed out during banner exchange", "its sshd did not answer"),
    (r"^banner exchange: |^Bad packet length", "no sshd on that port: another service answers"),
    (r"[Tt]imed out", "no answer: the connection timed out"),
    (r"No route to host|Network is unreachable", NO_ROUTE),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has CHANGED: it is another machine, or was reinstalled;"
        " if you trust it, remove the old key: ssh-keygen -R HOST",
    ),
    (r"REVOKED HOST KEY|[Rr]evoked host key", "its host key is marked @revoked: do not trust it"),
    (
        r"Host key verification failed|host key is known for",
        "unknown host key: check it with ssh-keyscan HOST | ssh-keygen -lf -"
        " and accept it with ssh-keyscan HOST >> ~/.ssh/known_hosts"
        " (or use --accept_new_host_keys)",
    ),
    (
        r"Permissions \d+ for '(.+)' are too open",
        "authentication failed: ssh ignores the key WHAT because other users can read it;"
        " run chmod 600 WHAT",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "authentication failed: no key was accepted; run ssh-copy-id LOGIN",
    ),
    (
        r"kex_exchange_identification|ssh_exchange_identification|banner exchange"
        r"|Connection reset|Connection closed by",
        "its sshd dropped the connection",
    ),
    (
        r"python 3\.10 or newer is needed, this is (\S+)",
        f"PYTHON is Python WHAT, but 3.10 or newer is needed {ANOTHER_PYTHON}",
    ),
    (r"Permission denied", f"no permission to run PYTHON {ANOTHER_PYTHON}"),
    (
        r"No such file or directory|not found|Unknown command",
        f"no Python at PYTHON {ANOTHER_PYTHON}",
    ),
)
"""Patterns of messages, and their meanings; the first that matches decides.

`ACCOUNTS` is tried before this table, and before that the node launcher's own message, which
proves its start.
"""

TRANSIENT = re.compile(r"kex_exchange_identification|ssh_exchange_identification")
"""Messages of ssh clients when sshd refuses temporarily (MaxStartups)."""

PERMANENT = re.compile(
    r"banner exchange|stdio forwarding failed|open failed|Could not resolve|Connection refused"
    r"|timed out|No route|unreachable|[Hh]ost key|HOST KEY|HOST IDENTIFICATION|Permission denied"
    r"|not found|No such file|jumphost loop|[Bb]ad "
)
"""Further messages of such a refusal if another attempt would not help."""

PROXIED = re.compile(r"(?m)^.*( UNKNOWN port |^kex_exchange_id|stdio forwarding failed).*$")
"""The last message when a ProxyJump or ProxyCommand has ended; it is not the reason."""


def is_transient(text: str) -> bool:
    """Return whether sshd has refused only for the moment, judging from ssh's output."""
    return bool(TRANSIENT.search(text)) and not PERMANENT.search(text)


ACCEPTED_KEY = re.compile(r"Permanently added '(.+)' \((.+)\) to the list")
"""The message of ssh when it accepts a new host key, as configured."""


def accepted_key(text: str) -> str:
    """Return the warning about a new host key that ssh has accepted, or ""."""
    match = ACCEPTED_KEY.search(text)
    return f"{match[1]}: accepted its new {match[2]} host key" if match else ""


ENTERING = "dsrun enters "
"""The line on a session's standard error before a container's client takes over, with its name."""

KILLED = {128 + SIGKILL: "was killed", 255: "or its client was killed"}
"""Exit codes of a container's client, or of an ssh session whose command was killed (255)."""

NONE_INSIDE = "there is no WHAT inside; name a Python 3.10 or newer inside with --python"

OF_CONTAINERS: tuple[tuple[str, str], ...] = (
    (
        r"python 3\.10 or newer is needed, this is (\S+)",
        "its Python is WHAT, but 3.10 or newer is needed; name another one inside with --python",
    ),
    (
        r"exec(?:utable file)?:? [\"`']?([\w./+-]{1,200})[\"`']?:? "
        r"(?:executable file |stat |no such|not found)",
        NONE_INSIDE,
    ),
    (r"execve\(\): ([\w./+-]{1,200}): No such file", NONE_INSIDE),
    (r"\"([\w./+-]{1,200})\": executable file not found", NONE_INSIDE),
    (r"(unknown (?:shorthand )?flag: .{1,100})", "WHAT (see --container_args)"),
    (r"^Usage: enroot", "it does not know one of its options (see --container_args)"),
)
"""Patterns of messages of containers' clients, and of Slurm about a task, and their meanings."""

OF_PYXIS: tuple[tuple[str, str], ...] = (
    (
        r"unrecognized option '--container-image",
        "Slurm has no plugin pyxis on this machine, see srun --help",
    ),
    *OF_CONTAINERS,
    (r"pyxis:  +(?:\[ERROR\]|enroot-\w{1,20}:) (.{1,300})", "WHAT"),
    (r"error: pyxis: (?!child |printing )(.{1,300})", "WHAT"),
)
"""Patterns for srun with pyxis; the last but one matches a line of enroot's log."""

FRAME = r'^ +File "([^"\n]*)", line (\d+)'
"""A line of a traceback: the file and the line."""

SHELL_CODES = {126: CAUSES[-2][1], 127: CAUSES[-1][1]}
"""A shell's own exit codes (POSIX, 2.8.2): the command was not executable, or not found."""


def explain_end(code: int, text: str) -> str:
    """Return why an established session has ended: its last line of output, else its exit code."""
    _, entered, said = text.rpartition(ENTERING)
    lines = [line.strip() for line in said.splitlines()[bool(entered) :] if line.strip()]
    if not code and not lines:
        return ""
    if entered and not lines and code in KILLED:
        return f"its container {KILLED[code]}"
    return f"its session ended: {lines[-1][:200] if lines else f'exit code {code}'}"


class Attempt(NamedTuple):
    """A start on a host that was attempted.

    Attributes:
        host: the host's name, for the suggested commands.
        what: the program that did not start, in words.
        python: the interpreter for the program.
        user: the user to run it, if one was named.
        login: whether a login shell was to run it.
    """

    host: str = ""
    what: str = "the node launcher"
    python: str = ""
    user: str = ""
    login: bool = True


NODE_LAUNCHER = Attempt()


def attempt(host: Host, python: str) -> Attempt:
    """Return the attempt to start a node launcher with this Python."""
    return Attempt(host.name, python=python, user=host.user or "")


def explain(code: int, text: str, tried: Attempt = NODE_LAUNCHER) -> str:
    """Return why a session was never established.

    Args:
        code: exit code of the session's command.
        text: the output on either stream.
        tried: the attempted start.
    """
    if ENTERING in text:
        return _of_container(code, text.rpartition(ENTERING)[2])
    proxied = " UNKNOWN port " in text
    text = PROXIED.sub("", text) if proxied else text
    lines = [line.strip()[:200] for line in text.splitlines() if line.strip()]
    if proxied and lines:
        return f"its ProxyJump or ProxyCommand failed: {lines[-1]}"
    last = f" ({lines[-1]})" if lines else ""
    return _known(code, text, tried, last) or _unknown(code, lines, tried, last)


def _of_container(code: int, text: str) -> str:
    """Return why a container's client did not start it; the first line of the text is its name."""
    name, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    if known := _listed(OF_CONTAINERS, "\n".join(lines), NODE_LAUNCHER, ""):
        return f"{name}: {known}"
    last = lines[-1].removeprefix("Error: ")[:300] if lines else f"exit code {code}"
    return f"{name} did not start: {last}"


def explain_pyxis(name: str, lines: Sequence[str]) -> str:
    """Return why pyxis did not start a container, "" if srun's lines do not say so."""
    known = _listed(OF_PYXIS, "\n".join(lines), NODE_LAUNCHER, "")
    return f"{name} did not start: {known}" if known else ""


def explain_session(code: int, errors: str, noise: bytes, tried: Attempt, *, answered: bool) -> str:
    """Return why the session of a node launcher has ended, "" for a normal end.

    Args:
        code: exit code of the session's command.
        errors: the end of the session's standard error.
        noise: the output before the node launcher answered.
        tried: the attempted start.
        answered: whether the node launcher has answered.
    """
    if code == INTERNAL and (bug := _bug(errors)):
        return bug
    if answered:
        return explain_end(code, errors)
    output = noise.decode("utf-8", "replace")
    _, entered, said = errors.rpartition(ENTERING)
    silent = entered and len(said.splitlines()) < 2
    # enroot's usage is on its standard output.
    text = f"{errors}\n{output}" if silent else errors or output
    return explain(code, text, tried) if code or tried.python else ""


def _bug(errors: str) -> str:
    """Return an error of the node launcher that its own code has not handled, or ""."""
    frames = re.findall(FRAME, errors, re.MULTILINE)
    if not frames:
        return ""
    file, line = frames[-1]
    place = f"{'/'.join(file.split('/')[-3:])}:{line}"
    last = errors.rstrip().rpartition("\n")[2].strip()[:200]
    return f"its node launcher failed at {place} ({last}): this is a bug in dsrun, please report it"


def _known(code: int, text: str, tried: Attempt, last: str) -> str:
    cause = _listed(ACCOUNTS, text, tried, last)
    if not cause and code in SHELL_CODES:
        return _filled(SHELL_CODES[code], tried) + last
    return cause or _listed(CAUSES, text, tried, last)


def _listed(table: Sequence[tuple[str, str]], text: str, tried: Attempt, last: str) -> str:
    for pattern, words in table:
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            cause = words.replace("WHAT", match[1]) if match.re.groups else words
            cause = _filled(cause, tried)
            return cause + ("" if "host key" in cause or match.re.groups else last)
    return ""


def _filled(words: str, tried: Attempt) -> str:
    """Return words of the table with the names of host, interpreter and user."""
    python = tried.python or "that path"
    place = f"{python} for user {tried.user}" if tried.user else python
    host = tried.host or "HOST"
    login = f"{tried.user}@{host}" if tried.user else host
    named = {"HOST": host, "LOGIN": login, "PYTHON": place}
    return re.sub(r"\b(HOST|LOGIN|PYTHON)\b", lambda match: named[match[1]], words)


def _unknown(code: int, lines: Sequence[str], tried: Attempt, last: str) -> str:
    """Return a description of an end that the table does not explain.

    A shell, ssh and a running Python end in other ways than a program that is not Python.
    """
    if not tried.python or not 0 <= code < min(SHELL_CODES) or "Traceback" in "".join(lines):
        return f"{tried.what} did not start: exit code {code}{last}"
    printed = f"it printed {lines[0]!r}" if lines else "it printed nothing"
    if tried.login and code == 0 and lines:
        advice = (
            "its sshd (ForceCommand) or login shell runs that program, or PYTHON is not a Python"
            " (see `ssh LOGIN PYTHON -V`)"
        )
        answered = f"another program answered instead of {tried.python}: {printed}, exit code 0"
        return f"{answered}; {_filled(advice, tried)}"
    shell = " (or its login shell runs no commands)" if tried.login and not lines else ""
    return (
        f"{tried.python} did not answer as Python 3.10 or newer {ANOTHER_PYTHON}: "
        f"{printed}, exit code {code}{shell}"
    )
