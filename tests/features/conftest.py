"""Fleets, runners and real children, for tests of every feature."""

from ..support.fleet_fixtures import asked, fleet_of
from ..support.node_fixtures import adopting, agents, joined, runner

__all__ = ["adopting", "agents", "asked", "fleet_of", "joined", "runner"]
