"""Workers that are debugged, and a desk at which a test sits, for every test here."""

from .debugged import debugged
from .desk import desk_of

__all__ = ["debugged", "desk_of"]
