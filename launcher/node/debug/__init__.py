"""Debuggers for workers on this node."""
