"""The operating system of all simulated hosts, in virtual time."""

from .host import Host
from .kernel import Kernel
from .process import Process
from .scheduler import Gone

__all__ = ["Gone", "Host", "Kernel", "Process"]
