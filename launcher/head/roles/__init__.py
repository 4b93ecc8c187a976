"""A job of several roles: programs on one fleet that start, restart and end by one policy."""
