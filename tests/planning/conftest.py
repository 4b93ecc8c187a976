"""A project with its own Python, for every test here."""

from ..support.python_fixtures import own, repo

__all__ = ["own", "repo"]
