"""The ssh configuration of one host, and which of its settings paramiko does not support. Pure.

The input is the output of `ssh -G`, in which OpenSSH has resolved everything but `~` and the tokens
of some values (ssh_config(5), TOKENS).
"""

from __future__ import annotations

import os
import re

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    Values: TypeAlias = Mapping[str, Sequence[str]]

IRRELEVANT = frozenset(
    [
        *("host", "include", "sendenv", "setenv", "hashknownhosts", "updatehostkeys"),
        *("gssapiauthentication", "gssapidelegatecredentials", "gssapikeyexchange"),
        *("gssapitrustdns", "forwardagent", "addkeystoagent", "permitlocalcommand", "localcommand"),
        *("forwardx11", "forwardx11trusted", "forwardx11timeout", "xauthlocation", "loglevel"),
        *("controlmaster", "controlpath", "controlpersist", "compression", "visualhostkey"),
        *("serveraliveinterval", "serveralivecountmax", "tcpkeepalive", "connecttimeout"),
        *("connectionattempts", "ciphers", "macs", "kexalgorithms"),
    ]
)
"""Keywords that affect neither how a host is reached nor how to log in there."""

SESSION = {
    "SessionType": "default",
    "StdinNull": "no",
    "ForkAfterAuthentication": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "PermitLocalCommand": "no",
    "ControlMaster": "no",
    "ExitOnForwardFailure": "no",
    "LogLevel": "INFO",
}
"""Settings that each ssh run by dsrun needs, whatever the user's files say.

A session runs dsrun's command, reads dsrun's input and stays in the foreground. It leaves no master
behind for other sessions; a master of the user's that already runs is used. It does not end if the
session of another host has taken a port, and it says why it ends.
"""

EVERY = frozenset(map(str.lower, SESSION))

USERS = frozenset({"ExitOnForwardFailure", "LogLevel"})
"""Settings that the user may change for dsrun itself, in arguments for ssh."""

NEWER = frozenset({"SessionType", "StdinNull", "ForkAfterAuthentication"})
"""Settings of OpenSSH 8.7 and later; older versions end with an error."""

KINDS = ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk")
USUAL_KEYS = tuple(f"~/.ssh/id_{kind}" for kind in KINDS)
KNOWN = ("~/.ssh/known_hosts ~/.ssh/known_hosts2",)
KNOWN_TO_ALL = ("/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",)

LENIENT = frozenset({"no", "off", "false", "accept-new"})
"""Values of StrictHostKeyChecking that accept unknown keys; `-G` prints `no` as `false`."""

CARELESS = LENIENT - {"accept-new"}
"""Values with which OpenSSH connects even if a key has changed."""


class Unreadable(Exception):
    """A configuration cannot be read; the text says where and why."""


class HostConfig(NamedTuple):
    """The configuration of one host.

    Attributes:
        address: its HostName.
        keys: the files of IdentityFile, whether or not they exist.
        certificates: the files of CertificateFile.
        agent: the agent's socket, or "".
        known_as: HostKeyAlias, or "".
        known_hosts: the files of known keys, the user's own first.
        family: AddressFamily.
        jumps: ProxyJump, or "".
        command: ProxyCommand, or "".
        checking: StrictHostKeyChecking.
        values: all values, by keyword in lower case.
    """

    address: str
    port: int
    user: str
    keys: tuple[str, ...]
    certificates: tuple[str, ...]
    only_these_keys: bool
    agent: str
    known_as: str
    known_hosts: tuple[str, ...]
    family: str
    jumps: str
    command: str
    checking: str
    values: Values

    @property
    def accepts_new_keys(self) -> bool:
        """True if an unknown host key is accepted."""
        return self.checking in LENIENT


class LoginName(NamedTuple):
    """The local user, for the tokens that mean it; the name is "" for a user without one."""

    name: str
    home: str
    environ: Mapping[str, str]
    uid: int


def parse(text: str) -> dict[str, list[str]]:
    """Parse the output of `ssh -G`: all values of each keyword, in order."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword.lower(), []).append(value.strip())
    return values


def resolve(values: Values, name: str, account: LoginName) -> HostConfig:
    """Return the configuration of the host `name`, with the remaining tokens expanded.

    Raises:
        Unreadable: the port is invalid, or the login name is unknown.
    """
    address, port = _first(values, "hostname", name), _port(_first(values, "port", "22"))
    user, alias = _first(values, "user", account.name), _first(values, "hostkeyalias")
    if not user:
        raise Unreadable(
            f"no user name for the login on {name}: uid {account.uid} has no entry in the user"
            f" database; write USER@{name}, or set LOGNAME"
        )
    expand = _token_expander([address, name, str(port), user, alias or address], account)

    def path(text: str) -> str:
        named = re.sub(r"\$\{(\w+)\}", lambda one: account.environ.get(one[1], ""), text)
        return expand(re.sub("^~(?=/)", "%d", named))

    def paths(keyword: str, default: Sequence[str]) -> tuple[str, ...]:
        return tuple(path(one) for one in values.get(keyword, default) if one.lower() != "none")

    known = (
        *values.get("userknownhostsfile", KNOWN),
        *values.get("globalknownhostsfile", KNOWN_TO_ALL),
    )
    return HostConfig(
        address=address,
        port=port,
        user=user,
        keys=paths("identityfile", USUAL_KEYS),
        certificates=paths("certificatefile", ()),
        only_these_keys=_first(values, "identitiesonly") == "yes",
        agent=path(_agent(_first(values, "identityagent", "SSH_AUTH_SOCK"))),
        known_as=expand(alias),
        known_hosts=tuple(path(one) for line in known for one in line.split() if one != "none"),
        family=_first(values, "addressfamily", "any").lower(),
        jumps=expand(_first(values, "proxyjump")),
        command=expand(_first(values, "proxycommand")),
        checking=_first(values, "stricthostkeychecking", "ask").lower(),
        values=values,
    )


def _first(values: Values, keyword: str, default: str = "") -> str:
    """Return the first value, which is the one in effect, or ""."""
    value = values.get(keyword, [default])[0]
    return "" if value.lower() == "none" else value


def _token_expander(named: Sequence[str], account: LoginName) -> Callable[[str], str]:
    """Return a function that expands tokens; `named` has %h, %n, %p, %r and %k."""
    here = os.uname().nodename
    ours = ["%", account.name, account.home, str(account.uid), here, here.partition(".")[0]]
    tokens = dict(zip("hnprk%udilL", [*named, *ours], strict=True))
    return lambda text: re.sub("%(.)", lambda token: tokens.get(token[1], token[0]), text)


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise Unreadable(f"Port {text}: expected 1 to 65535")
    return int(text)


def _agent(value: str) -> str:
    """Return IdentityAgent as a path: it may name a variable, as its default does."""
    return "${SSH_AUTH_SOCK}" if value == "SSH_AUTH_SOCK" else re.sub(r"^\$(\w+)$", r"${\1}", value)


UNSUPPORTED: tuple[tuple[str, frozenset[str]], ...] = (
    ("PKCS11Provider", frozenset({"none"})),
    ("SecurityKeyProvider", frozenset({"none", "internal"})),
    ("KnownHostsCommand", frozenset({"none"})),
    ("RevokedHostKeys", frozenset({"none"})),
    ("VerifyHostKeyDNS", frozenset({"no", "false"})),
    ("PubkeyAuthentication", frozenset({"yes", "true", "host-bound", "unbound"})),
    ("ProxyUseFdpass", frozenset({"no"})),
    ("BindAddress", frozenset({"none"})),
    ("BindInterface", frozenset({"none"})),
)
"""Keywords that paramiko does not support, and their values without an effect."""


def unsupported(config: HostConfig, agent: str) -> str:
    """Return the setting that paramiko does not support, in words, or ""."""
    keyword = next(_unsupported_keywords(config, agent), "")
    if not keyword:
        return ""
    return f"your ssh configuration sets {keyword}, which paramiko does not support"


def _unsupported_keywords(config: HostConfig, agent: str) -> Iterator[str]:
    for keyword, harmless in UNSUPPORTED:
        if not harmless.issuperset(map(str.lower, config.values.get(keyword.lower(), ()))):
            yield keyword
    if "publickey" not in config.values.get("preferredauthentications", ["publickey"])[0]:
        yield "PreferredAuthentications without publickey"
    if config.agent not in {"", agent}:
        yield "IdentityAgent"
    # paramiko finds a certificate next to its key.
    if not {f"{key}-cert.pub" for key in config.keys}.issuperset(config.certificates):
        yield "CertificateFile"


UNSUPPORTED_KEYWORDS = frozenset(
    [keyword.lower() for keyword, _ in UNSUPPORTED]
    + ["preferredauthentications", "identityagent", "certificatefile"]
)
"""All keywords that may be unsupported, in lower case."""


class ProxyJump(NamedTuple):
    """One host of ProxyJump."""

    name: str
    user: str | None
    port: int | None


def parse_jump(text: str) -> ProxyJump:
    """Return the host of `[USER@]HOST[:PORT]`, an IPv6 address in brackets, or of an ssh:// URI.

    Raises:
        Unreadable: the text has none of these forms.
    """
    rest = text.strip().removeprefix("ssh://").rstrip("/")
    user, _, place = rest.rpartition("@")
    match = re.fullmatch(r"(?:\[([^]]+)\]|([^\s:\[\]]+))(?::([^:]*))?", place)
    if match is None:
        raise Unreadable(f"ProxyJump {text!r}: expected [USER@]HOST[:PORT]")
    return ProxyJump(match[1] or match[2], user or None, _port(match[3]) if match[3] else None)


def named_keys(config: HostConfig) -> tuple[str, ...]:
    """Return the key files that the user has named; without any, `-G` lists the default ones."""
    named = config.values.get("identityfile", ())
    usual = [one for one in named if re.fullmatch(r"~/\.ssh/id_(\w+)", one)]
    return () if len(usual) == len(named) > 2 or not named else config.keys
