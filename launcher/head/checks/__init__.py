"""Compares the facts of all nodes, and finds what is wrong with them. Pure."""
