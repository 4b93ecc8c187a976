"""This machine: its identity, its resources and its processes."""
