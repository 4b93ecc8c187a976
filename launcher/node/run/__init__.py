"""A program on this node, from JOB to DONE, and what is watched of it."""
