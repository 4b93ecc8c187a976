"""The processes that reach hosts: an `ssh` client each, or a shell for this machine itself.

Many logins mostly cost processor time of this machine. The cheapest key exchange is tried first, if
the user's configuration does not choose: with OpenSSH 9 a login takes 14 ms instead of 90. The
cipher takes half the time of the default, with files of `--copy`.
"""

from __future__ import annotations

from ...backends import causes
from ...backends.ssh import config_reader
from ...backends.ssh.openssh import OpenSSH
from ...common import executable, files
from ...common.errors import UsageError
from ...resources.source import is_here
from .runner_remote_shell import BOOT, remote_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.backend import BackendSettings
    from ...specs.host import Host
    from .runner_events import HostCommand

QUICK = {
    "KexAlgorithms": "^curve25519-sha256",
    "Ciphers": "^aes128-gcm@openssh.com",
    "PreferredAuthentications": "publickey,gssapi-with-mic,hostbased",
    "UpdateHostKeys": "no",
    "ControlMaster": "no",
}
"""Options that save time; all other algorithms, and logins without a prompt, stay possible."""

REFUSED = "Bad SSH2 "
"""The message of an `ssh` that is older than OpenSSH 8, or allows only certain algorithms."""


class Clients:
    """Makes the command line for each host."""

    def __init__(self, hosts: Sequence[Host], settings: BackendSettings) -> None:
        """Read the user's ssh configuration, if a host needs ssh.

        Raises:
            UsageError: there is no `ssh` program, or its configuration cannot be read.
        """
        self._everywhere = settings.force_multi
        self._openssh = OpenSSH(settings)
        self._quick: list[str] = []
        remote = [host for host in hosts if not self.is_local(host)]
        if remote:
            self._read_config(remote, settings)

    def _read_config(self, remote: Sequence[Host], settings: BackendSettings) -> None:
        if not executable.find("ssh"):
            raise UsageError("no `ssh` on PATH, but dsrun-exec needs it; install OpenSSH's client")
        config_reader.check(remote, settings.port, settings.args)
        self._openssh.read_config(remote)
        if any(word.startswith("-F") for word in settings.args):
            return  # a configuration file of the user's that is not read here
        chosen = config_reader.reader().keywords
        quick = {name: QUICK[name] for name in QUICK if name.lower() not in chosen}
        self._quick = [word for name in quick for word in ("-o", f"{name}={quick[name]}")]

    def is_local(self, host: Host) -> bool:
        """Return whether a host is this machine, and needs no ssh."""
        return is_here(host) and not self._everywhere

    def argv(self, host: Host) -> list[str]:
        """Return the process for a host."""
        if self.is_local(host):
            return ["sh", "-c", BOOT]
        return [*self._openssh.client(host), *self._quick, "--", host.name, remote_line()]

    def placed(self, host: Host, command: HostCommand) -> HostCommand:
        """Return the command for a host: as after a login, it runs in the home folder."""
        if command.workdir or not self.is_local(host):
            return command
        return command._replace(workdir=files.login_folder())

    def try_again(self, printed: str) -> bool:
        """Return whether another attempt may help, given what the client printed."""
        if self._quick and REFUSED in printed:
            self._quick = []
            return True
        return causes.is_transient(printed)
