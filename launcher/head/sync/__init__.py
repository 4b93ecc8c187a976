"""Copies a folder to the nodes: what has changed in it."""
