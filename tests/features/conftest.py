"""Fleets, runners, real children and a Python without torch, for tests of every feature."""

from ..support.fleet_fixtures import asked, fleet_of
from ..support.node_fixtures import _named, adopting, agents, joined, runner
from ..support.python_fixtures import own, repo

__all__ = ["_named", "adopting", "agents", "asked", "fleet_of", "joined", "own", "repo", "runner"]
