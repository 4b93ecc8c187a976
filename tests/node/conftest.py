"""Real children, and runners that a test plays, for every test here."""

from ..support.node_fixtures import _named, adopting, agents, joined, runner

__all__ = ["_named", "adopting", "agents", "joined", "runner"]
