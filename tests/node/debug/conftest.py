"""Workers that are debugged, for every test here."""

from .debugged import debugged

__all__ = ["debugged"]
