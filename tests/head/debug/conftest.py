"""A desk at which a test sits, for every test here."""

from .desk import desk_of

__all__ = ["desk_of"]
