"""Compares the facts of all nodes, and finds problems. Pure."""
