"""Measures the nodes and the network between them, and names what is slow."""
