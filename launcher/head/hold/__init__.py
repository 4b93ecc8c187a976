"""Held nodes: a fleet that one program after another uses."""
