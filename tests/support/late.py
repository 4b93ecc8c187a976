"""Modules that a test file uses, imported by the first test that does.

All files are imported by each process that runs tests, and torch takes a second and 250 MB.
"""

from importlib import import_module


class Late:
    """A module by its name, imported at the first look at one of its attributes.

    Type checkers are told of the import: `if TYPE_CHECKING: import torch`, and `else` this.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        """Return what the module has under this name.

        Raises:
            AttributeError: nothing, or the name is private: pytest looks for such in all that a
                file has.
            ImportError: the module cannot be imported.
        """
        if name.startswith("_") and name != "__version__":
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
