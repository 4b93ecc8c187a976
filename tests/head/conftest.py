"""Fleets that a test plays, for every test here."""

from ..support.fleet_fixtures import asked, fleet_of

__all__ = ["asked", "fleet_of"]
