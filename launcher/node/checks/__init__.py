"""Checks on this node before a job, for itself or for other nodes."""
