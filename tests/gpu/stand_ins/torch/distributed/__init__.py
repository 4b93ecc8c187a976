"""Process groups of one or two ranks."""

from .distributed_c10d import *
