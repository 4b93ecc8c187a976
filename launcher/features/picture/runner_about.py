"""A picture's facts about the job itself, which tell its readers what ran. Pure."""

from __future__ import annotations

import re
import time

from ...common.records import NamedTuple
from ...common.text import plain
from ...specs.environment import MASK, looks_secret

_WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+|\s+|['"]""")
"""A word as a shell reads it, or the text between two words."""

_LOGIN = re.compile(r"(://[^/@\s:]{0,64}:)[^/@\s]+@")
"""A password in a URL (RFC 3986, section 3.2.1)."""


class PictureHead(NamedTuple):
    """The description of a job.

    Attributes:
        command: script and arguments, as a shell reads them; for several roles, with their names,
            joined by `; `; "" if unknown.
        version: the version of the dsrun that ran it; "" if unknown.
        since: the time of its start, in seconds since 1970; 0 if unknown.
    """

    command: str = ""
    version: str = ""
    since: float = 0.0

    @property
    def facts(self) -> dict[str, str]:
        """The facts to show, by name; without secrets and unknown facts."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        known = {
            "program": ", ".join(_programs(self.command)),
            "command line": masked(self.command),
            "started": moment if self.since > 0 else "",
            "dsrun": self.version,
        }
        return {name: plain(value) for name, value in known.items() if value}


def masked(command: str) -> str:
    """Return a command line without the values of options and variables that look like secrets."""
    shown, hides = list[str](), False
    for word in _WORD.findall(command):
        name, equals, _ = word.partition("=")
        secret = looks_secret("_" + re.sub(r"\W", "_", name.strip("'\"").lstrip("-+")).upper())
        if word.isspace():
            shown.append(word)
        elif hides and not word.startswith("-"):
            shown.append(MASK + ";" * word.endswith(";"))
            hides = False
        else:
            mask = f"{name.lstrip(_QUOTES)}={MASK}{';' * word.endswith(';')}"
            shown.append(mask if equals and secret else word)
            hides = secret and not equals and word.startswith("-")
    return _LOGIN.sub(rf"\1{MASK}@", "".join(shown))


_QUOTES = "'\""


def _programs(command: str) -> list[str]:
    """Return the file of the program, or of each role behind its name."""
    words = [word for word in _WORD.findall(command) if not word.isspace()]
    starts = [0, *(at for at, word in enumerate(words, 1) if word.endswith(";"))]
    firsts = [words[at : at + 2] for at in starts]
    if not all(len(pair) == 2 and pair[0].endswith(":") for pair in firsts):
        firsts = [words[:1]]
    return [pair[-1].strip(_QUOTES).rpartition("/")[2] for pair in firsts if pair]
