"""Debuggers for workers, from this machine."""
