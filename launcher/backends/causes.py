"""Why a host cannot be used, in words: what ssh, its shell and python print, as a table."""

from __future__ import annotations

import re

_SCAN = "ssh-keyscan HOST | ssh-keygen -lf - shows it, ssh-keyscan HOST >> ~/.ssh/known_hosts"

NO_ROUTE = "no route to it: it is down, a firewall rejects it, or its address is wrong"


class SessionFailed(Exception):
    """A session was not established; the text is the cause."""


CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"Unable to run bstrap_proxy",
        "Intel MPI could not reach it, and keeps to itself why; try `ssh HOST true`",
    ),
    (r"Could not resolve hostname|Name or service not known", "its name does not resolve"),
    (r"Connection refused", "connection refused: no sshd on that port"),
    (r"timed out during banner exchange", "its sshd did not answer"),
    (r"^banner exchange: |^Bad packet length", "no sshd on that port: what answers is another"),
    (r"[Tt]imed out", "no answer: connecting timed out"),
    (r"No route to host|Network is unreachable", NO_ROUTE),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has CHANGED: not the host it was, or reinstalled;"
        " ssh-keygen -R HOST forgets the old one",
    ),
    (r"REVOKED HOST KEY|[Rr]evoked host key", "its host key is marked @revoked: do not trust it"),
    (
        r"Host key verification failed|host key is known for",
        f"unknown host key: {_SCAN} accepts it, or --accept_new_host_keys",
    ),
    (
        r"Permissions \d+ for '(.+)' are too open",
        "authentication failed: others may read the key WHAT, so ssh does not use it;"
        " chmod 600 WHAT",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "authentication failed: no key it accepts",
    ),
    (
        r"kex_exchange_identification|ssh_exchange_identification|banner exchange"
        r"|Connection reset|Connection closed by",
        "its sshd dropped the connection",
    ),
    (r"No module named '?dsrun", "no dsrun for that python: install it there"),
    (r"python 3\.10 or newer is needed", "its python is too old"),
    (r"Permission denied", "python may not be executed there (--python names another)"),
    (
        r"No such file or directory|not found|Unknown command",
        "no python at that path (--python names another)",
    ),
)
"""Patterns over what was printed, in the order in which they decide, and what they mean."""

TRANSIENT = re.compile(r"kex_exchange_identification|ssh_exchange_identification")
"""What a client prints when sshd refuses for the moment (MaxStartups)."""

PERMANENT = re.compile(
    r"banner exchange|stdio forwarding failed|open failed|Could not resolve|Connection refused"
    r"|timed out|No route|unreachable|[Hh]ost key|HOST KEY|HOST IDENTIFICATION|Permission denied"
    r"|not found|No such file|jumphost loop|[Bb]ad "
)
"""What it prints besides where trying again would not help."""

PROXIED = re.compile(r"(?m)^.*( UNKNOWN port |^kex_exchange_id|stdio forwarding failed).*$")
"""What it prints last when a ProxyJump or ProxyCommand has ended; it is not the reason."""


def is_transient(text: str) -> bool:
    """Tell from what ssh printed whether sshd has refused for the moment only."""
    return bool(TRANSIENT.search(text)) and not PERMANENT.search(text)


ACCEPTED_KEY = re.compile(r"Permanently added '(.+)' \((.+)\) to the list")
"""What ssh prints when it accepts a new host key, as it was told to."""


def accepted_key(text: str) -> str:
    """Return the warning about a new host key that ssh has accepted, or ""."""
    found = ACCEPTED_KEY.search(text)
    return f"{found[1]}: took its {found[2]} host key, never seen before" if found else ""


SHELL_CODES = {126: CAUSES[-2][1], 127: CAUSES[-1][1]}
"""A shell's own exit codes (POSIX, 2.8.2): the command was not executable, or not found."""


def explain_end(code: int, text: str) -> str:
    """Return why an established session has ended: what it printed last, else its exit code."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not code and not lines:
        return ""
    return f"its session ended: {lines[-1][:200] if lines else f'exit code {code}'}"


def explain(code: int, text: str, host: str = "") -> str:
    """Return why a session was never established.

    Args:
        code: exit code of the session's command.
        text: what was printed, on either stream.
        host: its name, for the commands that help.
    """
    proxied = " UNKNOWN port " in text
    text = PROXIED.sub("", text) if proxied else text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = f" ({lines[-1][:200]})" if lines else ""
    if proxied and lines:
        return f"the way to it (ProxyJump or ProxyCommand) failed: {lines[-1][:200]}"
    if code in SHELL_CODES:
        return SHELL_CODES[code] + last
    for pattern, words in CAUSES:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            cause = words.replace("WHAT", found[1]) if found.re.groups else words
            cause = re.sub(r"\bHOST\b", host or "HOST", cause)
            return cause + ("" if "host key" in cause or found.re.groups else last)
    return f"the node launcher did not start: exit code {code}{last}"
